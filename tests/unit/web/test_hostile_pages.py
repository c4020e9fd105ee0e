"""Pages that are made to hurt whoever reads them."""

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.harness.local_server import LocalServer

from batchrun_runner.web.addresses import AddressRules
from batchrun_runner.web.converting import SMALL_BYTES
from batchrun_runner.web.errors import WebFailure
from batchrun_runner.web.pages import Page, PageLimits, PageReader

HTML = "text/html"
BOMB = gzip.compress(b"\0" * (40 << 20))
TABLE = b"<html><body><table>" + b"<tr><td>x</td></tr>" * 400_000 + b"</table></body></html>"
LINKS = b"<html><body>" + b"<a href='/x'>x</a>" * 400_000 + b"</body></html>"


class Hostile(LocalServer):
    """Answers every request with `content`: status line, headers and body."""

    def __init__(self) -> None:
        hostile = self
        self.content: tuple[int, str, list[tuple[str, str]], bytes] = (200, "OK", [], b"")

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, reason, headers, body = hostile.content
                self.send_response(status, reason)
                for name, value in (*headers, ("Content-Length", str(len(body)))):
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        super().__init__("127.0.0.1", Handler)


@pytest.fixture
def server() -> Iterator[Hostile]:
    with Hostile() as hostile:
        yield hostile


async def read(server: Hostile, seconds: float = 60) -> Page:
    reader = PageReader(AddressRules.of(["127.0.0.1/32"]), PageLimits(seconds=seconds))
    try:
        return await reader.read(f"{server.url}/")
    finally:
        await reader.aclose()


def children() -> list[str]:
    """Processes that this one started and that are still there."""
    found = []
    for task in Path(f"/proc/{os.getpid()}/task").iterdir():
        # A thread that ends meanwhile leaves its children to another one.
        with suppress(FileNotFoundError, ProcessLookupError):
            found += (task / "children").read_text().split()
    return found


async def refused(server: Hostile, seconds: float = 60) -> WebFailure:
    before = children()
    with pytest.raises(WebFailure) as caught:
        await read(server, seconds)
    assert children() == before
    return caught.value


@pytest.mark.parametrize("body", [TABLE, b"<html><body><p>" + b"<" * 2_000_000], ids=["table", "brackets"])
async def test_a_page_that_takes_minutes_to_convert_is_given_up_and_nothing_works_on_it_any_more(
    server: Hostile, body: bytes
) -> None:
    server.content = (200, "OK", [("Content-Type", HTML)], body)

    assert (await refused(server, seconds=1)).kind == "timeout"


async def test_a_page_that_takes_gigabytes_to_convert_is_too_large(server: Hostile) -> None:
    server.content = (200, "OK", [("Content-Type", HTML)], LINKS)
    failure = await refused(server)

    assert (failure.kind, failure.message) == ("too_large", "its HTML takes too much memory or time to be read")


async def test_a_large_page_that_means_well_is_read_in_its_charset(server: Hostile) -> None:
    lines = "".join(f"<p>Die Größe von Otter {number} ist nicht bekannt.</p>" for number in range(2000))
    body = f"<html><head><title>Größen</title></head><body><article>{lines}</article></body></html>".encode("latin-1")
    assert len(body) > SMALL_BYTES
    server.content = (200, "OK", [("Content-Type", f"{HTML}; charset=latin-1")], body)
    page = await read(server)

    assert page.title == "Größen"
    assert "Die Größe von Otter 1999 ist nicht bekannt." in page.text


@pytest.mark.parametrize("coding", ["gzip", "gzip, gzip", "deflate"])
async def test_a_page_that_unpacks_to_more_than_is_read_is_too_large(server: Hostile, coding: str) -> None:
    bombs = {"gzip": BOMB, "gzip, gzip": gzip.compress(BOMB), "deflate": zlib.compress(b"\0" * (40 << 20))}
    server.content = (200, "OK", [("Content-Type", "text/plain"), ("Content-Encoding", coding)], bombs[coding])

    assert (await refused(server)).kind == "too_large"


@pytest.mark.parametrize("charset", ["idna", "undefined", "base64", "zip", "evil", "x" * 5000])
async def test_a_charset_that_is_none_leaves_the_text_as_it_is(server: Hostile, charset: str) -> None:
    server.content = (200, "OK", [("Content-Type", f"text/plain; charset={charset}")], b"otters, a text")

    assert "otters" in (await read(server)).text


@pytest.mark.parametrize(("charset", "half"), [("utf-7", b"+2AA-"), ("unicode_escape", b"\\ud800")])
@pytest.mark.parametrize("content_type", ["text/css", HTML])
async def test_text_with_halves_of_characters_can_be_written(
    server: Hostile, charset: str, half: bytes, content_type: str
) -> None:
    body = b"<html><body><p>An otter " + half + b" sleeps in the water.</p></body></html>"
    server.content = (200, "OK", [("Content-Type", f"{content_type}; charset={charset}")], body)

    assert b"otter" in (await read(server)).text.encode()


@pytest.mark.parametrize(
    ("status", "reason", "content_type"), [(500, "no " * 10_000, HTML), (200, "OK", "odd/" + "x" * 30_000)]
)
async def test_a_servers_own_words_are_shown_in_short(
    server: Hostile, status: int, reason: str, content_type: str
) -> None:
    server.content = (status, reason, [("Content-Type", content_type)], b"")

    assert len((await refused(server)).message) < 300


@pytest.mark.parametrize(
    "location",
    ["http://[::1", "//127.0.0.2:1/", "http://" + "a" * 70 + ".invalid/", "http://a..b/", "data:text/html,x"],
)
async def test_a_redirect_to_nowhere_says_so(server: Hostile, location: str) -> None:
    server.content = (302, "Found", [("Location", location)], b"")

    assert (await refused(server)).kind in {"unreachable", "address_refused", "invalid_arguments"}
