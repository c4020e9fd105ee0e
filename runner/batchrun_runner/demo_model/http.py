"""HTTP/1.1 for the demo model: keep-alive, bodies by length or in chunks, no more.

A plain `asyncio.Protocol`, for the demo model must not be what a benchmark measures. Bytes from the client are judged:
what is no HTTP, or too large, gets an error reply and the connection is closed.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal, cast

LIMIT_HEAD_BYTES = 64 * 1024
LIMIT_BODY_BYTES = 64 * 1024 * 1024
DRIP_SECONDS = 0.05
"""Pause between two bytes of a dripping reply."""

Fault = Literal["hang", "drip", "cut"]
"""hang: no reply ever. drip: a space every 50 ms, for ever. cut: half of the body, then the connection is closed."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request, its body complete."""

    method: str
    path: str
    """Without the query."""
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Response:
    """One reply, and how it is sent."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    delay_seconds: float = 0.0
    fault: Fault | None = None
    content_type: str = "application/json"


Handler = Callable[[Request], Response]
Refusal = Callable[[int, str], Response]


class _Bad(Exception):
    """The client's bytes cannot be served; carries the status of the reply."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class _Head:
    method: str
    path: str
    headers: dict[str, str]
    length: int
    """Bytes of the body; -1: it comes in chunks."""
    close: bool
    """The client wants the connection closed after the reply."""
    expects_continue: bool


class Connection(asyncio.Protocol):
    """One client connection. `connections` is the server's set of open ones; each takes itself out."""

    def __init__(self, handler: Handler, refuse: Refusal, connections: set["Connection"]) -> None:
        self._handler = handler
        self._refuse = refuse
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._head: _Head | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()

    def close(self) -> None:
        """End the connection, whatever it is doing."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._busy:
            self._pump()

    def _pump(self) -> None:
        """Serve every complete request in the buffer, one after the other."""
        try:
            while self._transport is not None and not self._busy:
                if self._head is None:
                    self._head = self._take_head()
                    if self._head is None:
                        return
                    if self._head.expects_continue:
                        self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = self._take_body(self._head)
                if body is None:
                    return
                head, self._head = self._head, None
                self._serve(head, body)
        except _Bad as bad:
            self._send(self._refuse(bad.status, str(bad)), close=True)

    def _take_head(self) -> _Head | None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > LIMIT_HEAD_BYTES:
                raise _Bad(431, f"request head is larger than {LIMIT_HEAD_BYTES} bytes")
            return None
        text = self._buffer[:end].decode("latin-1")
        del self._buffer[: end + 4]
        return _parse_head(text)

    def _take_body(self, head: _Head) -> bytes | None:
        if head.length < 0:
            return self._take_chunks()
        if len(self._buffer) < head.length:
            return None
        body = bytes(self._buffer[: head.length])
        del self._buffer[: head.length]
        return body

    def _take_chunks(self) -> bytes | None:
        """All chunks once the last one is there. Re-reads from the start: clients that matter send a length."""
        body, position = bytearray(), 0
        while True:
            end = self._buffer.find(b"\r\n", position)
            if end < 0:
                return None
            try:
                size = int(bytes(self._buffer[position:end]).split(b";")[0], 16)
            except ValueError:
                raise _Bad(400, "bad chunk size") from None
            if size < 0 or len(body) + size > LIMIT_BODY_BYTES:
                raise _Bad(413, f"request body is larger than {LIMIT_BODY_BYTES} bytes")
            start = end + 2
            if len(self._buffer) < start + size + 2:
                return None
            if size == 0:
                del self._buffer[: start + 2]
                return bytes(body)
            body += self._buffer[start : start + size]
            position = start + size + 2

    def _serve(self, head: _Head, body: bytes) -> None:
        response = self._handler(Request(head.method, head.path, head.headers, body))
        if response.fault == "hang":
            self._busy = True
        elif response.delay_seconds > 0:
            self._busy = True
            self._timer = self._loop.call_later(response.delay_seconds, self._resume, response, head.close)
        else:
            self._send(response, close=head.close)

    def _resume(self, response: Response, close: bool) -> None:
        self._busy = False
        self._send(response, close=close)
        self._pump()

    def _send(self, response: Response, *, close: bool) -> None:
        if self._transport is None:
            return
        if response.fault == "drip":
            self._busy = True
            self._transport.write(_head_bytes(response, b"transfer-encoding: chunked\r\n"))
            self._drip()
            return
        ending = b"connection: close\r\n" if close else b""
        head = _head_bytes(response, b"content-length: %d\r\n%s" % (len(response.body), ending))
        if response.fault == "cut":
            self._transport.write(head + response.body[: len(response.body) // 2])
        else:
            self._transport.write(head + response.body)
        if close or response.fault == "cut":
            self._transport.close()
            self._transport = None

    def _drip(self) -> None:
        if self._transport is not None:
            self._transport.write(b"1\r\n \r\n")
            self._timer = self._loop.call_later(DRIP_SECONDS, self._drip)


def _parse_head(text: str) -> _Head:
    lines = text.split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise _Bad(400, "this is not HTTP/1.1")
    headers = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon:
            raise _Bad(400, "bad header line")
        headers[name.strip().lower()] = value.strip()
    connection = headers.get("connection", "").lower()
    return _Head(
        method=words[0],
        path=words[1].partition("?")[0],
        headers=headers,
        length=_body_length(headers),
        close="close" in connection or (words[2] == "HTTP/1.0" and "keep-alive" not in connection),
        expects_continue=headers.get("expect", "").lower() == "100-continue",
    )


def _body_length(headers: dict[str, str]) -> int:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return -1
    text = headers.get("content-length", "0")
    if not text.isascii() or not text.isdigit():
        raise _Bad(400, "bad content-length")
    length = int(text)
    if length > LIMIT_BODY_BYTES:
        raise _Bad(413, f"request body is larger than {LIMIT_BODY_BYTES} bytes")
    return length


def _head_bytes(response: Response, framing: bytes) -> bytes:
    more = "".join(f"{name}: {value}\r\n" for name, value in response.headers).encode("latin-1", "replace")
    return b"HTTP/1.1 %d %s\r\ncontent-type: %s\r\n%s%s\r\n" % (
        response.status,
        _phrase(response.status),
        response.content_type.encode(),
        more,
        framing,
    )


def _phrase(status: int) -> bytes:
    try:
        return HTTPStatus(status).phrase.encode()
    except ValueError:
        return b"Scripted"
