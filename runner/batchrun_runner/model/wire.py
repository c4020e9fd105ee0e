"""The door to the openai package: bytes out, status, headers and bytes in. Nothing of openai leaves this module.

`AsyncOpenAI.post` with the body as bytes and the plain response as result. Beside `chat.completions.create`, that
walks the request by its type hints and builds pydantic objects of the reply, it takes a third of the CPU time per call:
2.6 ms against 8.5 ms on a busy machine, where bare httpx takes 2.4 ms. And it hands over what the server said instead
of what the types of the package make of it.
"""

import ssl
from functools import cache
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx2
import openai

from batchrun_runner.model.failures import Answer

CHAT = "/chat/completions"
IMAGES = "/images/generations"
CONNECT_SECONDS = 30.0
MOST_REPLY_BYTES = 64 * 1024 * 1024
"""Unpacked. A stream of 128,000 tokens, an event each, has 40 MB; more would cost the memory of all prompts."""

_HEADERS: dict[str, str | openai.Omit] = {"Content-Type": "application/json"}
_WITHOUT_KEY: dict[str, str | openai.Omit] = {**_HEADERS, "Authorization": openai.Omit()}


_OF_THE_WAY = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""Headers that say how a body travelled, which is over once it was read."""
_UNREACHABLE = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError)


class _TooLong(Exception):
    """Not held in memory."""


class ConnectionLost(Exception):
    """The server was not reached, or the connection broke before the answer was complete, or it never ended."""

    def __init__(self, message: str, *, unreachable: bool = False) -> None:
        super().__init__(message)
        self.unreachable = unreachable
        """There was no connection to begin with."""


@cache
def _tls_context() -> ssl.SSLContext:
    """Loading the certificates takes 50 ms and more, so they are loaded once for all clients."""
    return httpx2.create_ssl_context()


class _BoundedClient(openai.DefaultAsyncHttpxClient):
    """Reads each answer by itself: as bytes, whatever charset it claims, and no more than fits."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """The answer, read. Raises `_TooLong` and what httpx raises."""
        response = await super().send(request, **{**options, "stream": True})
        try:
            body = bytearray()
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > MOST_REPLY_BYTES:
                    raise _TooLong(f"an answer of more than {MOST_REPLY_BYTES >> 20} MiB")
        finally:
            await response.aclose()
        headers = [(name, value) for name, value in response.headers.multi_items() if name not in _OF_THE_WAY]
        read = httpx2.Response(response.status_code, headers=headers, content=bytes(body), request=request)
        # The package reads the text of an error, and a charset may be a codec that makes none.
        read.encoding = "utf-8"
        return read


class Wire:
    """One client with its connection pool for a whole process. Close it, or use it as an async context manager."""

    def __init__(self, base_url: str, api_key: str | None, max_connections: int = 1000) -> None:
        self._options: openai.RequestOptions = {"headers": _HEADERS if api_key else _WITHOUT_KEY}
        self._client = openai.AsyncOpenAI(
            # An empty string, not None: the package would take OPENAI_API_KEY, and send it to whoever base_url is.
            api_key=api_key or "",
            admin_api_key="",
            base_url=base_url,
            max_retries=0,
            # The total deadline is the caller's; between two bytes nothing shorter is right for a slow model.
            timeout=openai.Timeout(None, connect=CONNECT_SECONDS),
            http_client=_BoundedClient(
                verify=_tls_context(),
                # The conversation goes to the server that was named, and to no other.
                follow_redirects=False,
                limits=httpx2.Limits(max_connections=max_connections, max_keepalive_connections=max_connections),
            ),
            _enforce_credentials=False,
        )
        if urlsplit(base_url).hostname != "api.openai.com":
            self._client.organization = self._client.project = None

    async def post(self, body: bytes, path: str = CHAT) -> Answer:
        """Ask for a chat completion, or for what else `path` makes, once. Raises ConnectionLost; an error status is an
        answer too."""
        try:
            response = await self._client.post(path, cast_to=httpx2.Response, content=body, options=self._options)
        except openai.APIStatusError as error:
            response = error.response
        except _TooLong as error:
            raise ConnectionLost(str(error)) from error
        except openai.APIConnectionError as error:
            unreachable = isinstance(error.__cause__, _UNREACHABLE)
            raise ConnectionLost(_cause(error), unreachable=unreachable) from error
        return Answer(response.status_code, response.headers, response.content)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _cause(error: openai.APIConnectionError) -> str:
    """The kind of the fault and the words of the system; never the request."""
    cause = error.__cause__
    if cause is None:
        return "connection error"
    return f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
