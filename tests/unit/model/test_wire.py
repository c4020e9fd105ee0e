"""The wire against servers that send what no client expects: real sockets, raw bytes."""

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from batchrun_runner.model import wire
from batchrun_runner.model.wire import ConnectionLost, Wire

Say = Callable[[asyncio.StreamWriter], None]


@asynccontextmanager
async def server(say: Say) -> AsyncIterator[tuple[str, list[bytes]]]:
    """The base URL of a server that answers every request so, and the first lines that it was sent."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        asked.append(head.partition(b"\r\n")[0])
        say(writer)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1", asked


def response(body: bytes, status: str = "200 OK", **headers: str) -> Say:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return lambda writer: writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


@pytest.mark.parametrize(
    "say",
    [response(b": ping\n" * 400_000), response(gzip.compress(b"0" * 3_000_000), Content_Encoding="gzip")],
    ids=["long", "short, and long when unpacked"],
)
async def test_an_answer_of_any_length_is_not_held_in_memory(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MOST_REPLY_BYTES", 2 << 20)
    async with server(say) as (base_url, _), Wire(base_url, "sk-x") as client:
        with pytest.raises(ConnectionLost, match="an answer of more than 2 MiB"):
            await client.post(b"{}")


@pytest.mark.parametrize("charset", ["hex", "undefined", "no-such-thing", "utf-16"])
@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request"])
async def test_an_answer_is_its_bytes_whatever_charset_it_claims(charset: str, status: str) -> None:
    said = response(b'{"a": "\xc3\xbc"}', status, Content_Type=f"application/json; charset={charset}")
    async with server(said) as (base_url, _), Wire(base_url, "sk-x") as client:
        answer = await client.post(b"{}")
    assert (answer.status, answer.content) == (int(status[:3]), b'{"a": "\xc3\xbc"}')


async def test_a_packed_answer_is_unpacked_and_its_headers_are_there() -> None:
    said = response(gzip.compress(b'{"a": 1}'), Content_Encoding="gzip", Retry_After="3")
    async with server(said) as (base_url, _), Wire(base_url, None) as client:
        answer = await client.post(b"{}")
    assert (answer.content, answer.headers["retry-after"]) == (b'{"a": 1}', "3")


@pytest.mark.parametrize("status", ["301 Moved Permanently", "307 Temporary Redirect"])
async def test_a_conversation_goes_to_no_other_server(status: str) -> None:
    async with (
        server(response(b'{"choices": []}')) as (elsewhere, asked_elsewhere),
        server(response(b"", status, Location=elsewhere)) as (base_url, asked),
        Wire(base_url, "sk-x") as client,
    ):
        answer = await client.post(b"{}")
    assert (answer.status, answer.headers["location"]) == (int(status[:3]), elsewhere)
    assert (len(asked), asked_elsewhere) == (1, [])
