"""How tools reach the browser: one connection for each prompt, made by its first call."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from batchrun_runner.browser.protocol import ANSWER_BEYOND_SECONDS, LINE_BYTES
from batchrun_runner.web.errors import WebFailure

_CONNECT_SECONDS = 60.0
_RETRY_SECONDS = 0.2

SocketOf = Callable[[], Awaitable[Path]]
"""Where the service listens; whoever has to start it does so then."""


class BrowserConnection:
    """One prompt's browser. Close it: its pages and cookies go with it."""

    def __init__(self, socket_of: SocketOf, seconds: int) -> None:
        """`seconds`: what the service gives one action."""
        self._socket_of = socket_of
        self._seconds = seconds
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(self, action: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What the service answers. Raises WebFailure; a call is never repeated here."""
        request = orjson.dumps({"action": action, "arguments": arguments}, option=orjson.OPT_APPEND_NEWLINE)
        try:
            async with asyncio.timeout(self._seconds + ANSWER_BEYOND_SECONDS):
                reader, writer = self._streams = self._streams or await self._connected()
                writer.write(request)
                await writer.drain()
                line = await reader.readline()
        except (OSError, ValueError) as error:
            await self.aclose()
            is_late = isinstance(error, TimeoutError)
            message = "it does not answer" if is_late else str(error) or type(error).__name__
            raise WebFailure("browser_lost", f"the browser's service is gone: {message}") from error
        except asyncio.CancelledError:
            # An answer that still comes would be taken for the next call's.
            await self.aclose()
            raise
        if not line:
            await self.aclose()
            raise WebFailure("browser_lost", "the browser's service has ended, and all that was open is gone")
        answer = orjson.loads(line)
        if "result" not in answer:
            raise WebFailure(answer["kind"], answer["message"])
        fields: dict[str, Any] = answer["result"]
        return fields

    async def aclose(self) -> None:
        """End the prompt's browser."""
        streams, self._streams = self._streams, None
        if streams is not None:
            streams[1].close()
            with suppress(OSError):
                await streams[1].wait_closed()

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A service that starts, or is started again, is waited for. Raises OSError."""
        path = await self._socket_of()
        deadline = asyncio.get_running_loop().time() + _CONNECT_SECONDS
        while True:
            try:
                return await asyncio.open_unix_connection(path, limit=LINE_BYTES)
            except (FileNotFoundError, ConnectionRefusedError):
                if asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(_RETRY_SECONDS)
                path = await self._socket_of()
