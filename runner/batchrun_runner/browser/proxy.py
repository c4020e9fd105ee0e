"""The browser's only way to the network: a forward proxy that connects to judged addresses alone."""

import asyncio
import base64
import secrets
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Self
from urllib.parse import urlsplit

from batchrun_runner.browser.listening import Accept, listening
from batchrun_runner.web.addresses import AddressRules
from batchrun_runner.web.errors import WebFailure
from batchrun_runner.web.transport import PORTS, AddressRefused, Resolver, judged_addresses, resolve

_HEAD_BYTES = 128 * 1024
_PIECE_BYTES = 64 * 1024
_CONNECT_SECONDS = 20.0
_HEAD_SECONDS = 60.0
REFUSALS = (403, 502)
"""Statuses of answers that are the proxy's own."""
_HOP_HEADERS = frozenset({b"proxy-authorization", b"proxy-connection", b"connection", b"keep-alive", b"upgrade"})
_MOST_NOTED = 200
_NOT_ASKED = frozenset({"content-autofill.googleapis.com"})
"""Servers that Chromium tells of the pages it shows, and no flag stops it."""


@dataclass
class Passport:
    """What one context shows to the proxy, and where it could not go."""

    username: str = field(default_factory=lambda: secrets.token_hex(16))
    password: str = field(default_factory=lambda: secrets.token_hex(16))
    turned_away: dict[str, WebFailure] = field(default_factory=dict)
    """What could not be had, newest last, by host and port: `10.0.0.1:80`."""

    def turn_away(self, host: str, port: int, failure: WebFailure) -> None:
        """Note it for whoever reads what happened."""
        if len(self.turned_away) < _MOST_NOTED:
            self.turned_away[place(host, port)] = failure

    @property
    def header(self) -> str:
        """The value of Proxy-Authorization."""
        return "Basic " + base64.b64encode(f"{self.username}:{self.password}".encode()).decode()


class _Answered(Exception):
    """The request ends with a status of the proxy's own."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class _Head:
    method: str
    target: str
    headers: list[tuple[bytes, bytes]]

    def value(self, name: bytes) -> str:
        return next((value.decode("latin-1") for key, value in self.headers if key.lower() == name), "")


class GuardedProxy:
    """Each connection carries one request, or one tunnel."""

    def __init__(self, rules: AddressRules, resolver: Resolver = resolve) -> None:
        self._rules = rules
        self._resolver = resolver
        self._passports: dict[str, Passport] = {}
        self.url = ""
        """Where it listens."""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Self]:
        """It listens on loopback while the context is open."""

        def start(accept: Accept) -> Awaitable[asyncio.Server]:
            return asyncio.start_server(accept, "127.0.0.1", 0, limit=_HEAD_BYTES)

        async with listening(start, self._serve) as server:
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            yield self

    @contextmanager
    def admitted(self) -> Iterator[Passport]:
        """Credentials that count while the context is open."""
        passport = Passport()
        self._passports[passport.header] = passport
        try:
            yield passport
        finally:
            del self._passports[passport.header]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head = _parsed(await reader.readuntil(b"\r\n\r\n"))
            passport = self._passports.get(head.value(b"proxy-authorization"))
            if passport is None:
                raise _Answered("407 Proxy Authentication Required", "this proxy is not for you")
            host, port = _destination(head)
            try:
                there, back = await self._connect(host, port)
            except WebFailure as failure:
                passport.turn_away(host, port, failure)
                status = "403 Forbidden" if failure.kind == "address_refused" else "502 Bad Gateway"
                raise _Answered(status, failure.message) from failure
        except _Answered as answer:
            await _say(writer, answer)
            return
        try:
            if head.method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                back.write(_forwarded(head))
            await _both_ways((reader, writer), (there, back))
        finally:
            back.close()
            with suppress(OSError):
                await back.wait_closed()

    async def _connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """To the very address that was judged: nothing is resolved a second time. Raises WebFailure."""
        if host in _NOT_ASKED:
            raise WebFailure("unreachable", f"{host} is not asked from here")
        try:
            addresses = await judged_addresses(host, port, self._rules, self._resolver)
        except AddressRefused as error:
            raise WebFailure("address_refused", str(error)) from error
        except OSError as error:
            raise WebFailure("unreachable", str(error)) from error
        failure: OSError = OSError("it has no address")
        for address in addresses:
            try:
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await asyncio.open_connection(address, port)
            except OSError as error:
                failure = error
        raise WebFailure("unreachable", f"{host} port {port} does not answer: {failure}")


def place(host: str, port: int) -> str:
    """A key of `Passport.turned_away`."""
    return f"{host.lower().strip('[]')}:{port}"


def _parsed(raw: bytes) -> _Head:
    first, *lines = raw[:-4].split(b"\r\n")
    words = first.decode("latin-1").split(" ")
    if len(words) != 3:
        raise _Answered("400 Bad Request", "this is no request")
    headers = [(name, value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
    return _Head(words[0], words[1], headers)


def _destination(head: _Head) -> tuple[str, int]:
    """Host and port of what is asked for; only http goes without a tunnel."""
    is_tunnel = head.method == "CONNECT"
    try:
        parts = urlsplit(f"//{head.target}" if is_tunnel else head.target)
        port = parts.port or PORTS["https" if is_tunnel else "http"]
    except ValueError as error:
        raise _Answered("400 Bad Request", f"this is no address: {error}") from error
    if not parts.hostname or (not is_tunnel and parts.scheme != "http"):
        raise _Answered("400 Bad Request", "only http and https go through here")
    return parts.hostname, port


def _forwarded(head: _Head) -> bytes:
    """The request as the server gets it: for one answer, after which the connection ends.

    So no second request on it can name another host than the one that was judged.
    """
    parts = urlsplit(head.target)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    kept = [(name, value) for name, value in head.headers if name.lower() not in _HOP_HEADERS]
    lines = [f"{head.method} {path} HTTP/1.1".encode("latin-1"), *(name + b": " + value for name, value in kept)]
    return b"\r\n".join([*lines, b"Connection: close", b"", b""])


async def _both_ways(
    here: tuple[asyncio.StreamReader, asyncio.StreamWriter], there: tuple[asyncio.StreamReader, asyncio.StreamWriter]
) -> None:
    """Until the server has said all; a browser that has said all may still read."""
    sending = asyncio.create_task(_pump(here[0], there[1]))
    try:
        await _pump(there[0], here[1])
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Everything, with the receiver's backpressure."""
    with suppress(OSError):
        while piece := await reader.read(_PIECE_BYTES):
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


async def _say(writer: asyncio.StreamWriter, answer: _Answered) -> None:
    body = str(answer).encode("utf-8", "replace")
    more = "Proxy-Authenticate: Basic realm=batchrun\r\n" if answer.status.startswith("407") else ""
    head = f"HTTP/1.1 {answer.status}\r\n{more}Content-Type: text/plain; charset=utf-8\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
    await writer.drain()
