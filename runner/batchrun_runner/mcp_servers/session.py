"""One session with one MCP server, through the official SDK: the only module that knows it."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import httpx2
from mcp import ClientSession, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, PaginatedRequestParams, TextContent, Tool

from batchrun_api.text import shortened_bytes
from batchrun_runner.mcp_servers.errors import CallFailed, ServerUnavailable

MOST_TOOLS = 128
MOST_PAGES = 32
TRIES = 3
_SHOWN_BYTES = 300


@dataclass(frozen=True, slots=True)
class McpEndpoint:
    """Where a server is; the values of its headers are secrets."""

    name: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_seconds: float = 60.0


@dataclass(slots=True)
class McpSession:
    """An open session. A task of its own holds the SDK's, so that its end cancels nobody else."""

    endpoint: McpEndpoint
    tools: list[Tool] = field(default_factory=list)
    _client: ClientSession | None = None
    _holder: "asyncio.Task[None] | None" = None
    _closing: asyncio.Event = field(default_factory=asyncio.Event)

    @classmethod
    async def open(cls, endpoint: McpEndpoint, pause_seconds: float = 1.0) -> "McpSession":
        """Raises ServerUnavailable after three tries; the pauses between them double."""
        cause: str | None = None
        for number in range(TRIES):
            session = cls(endpoint)
            cause = await session._start()
            if cause is None:
                return session
            await session.aclose()
            if number + 1 < TRIES:
                await asyncio.sleep(pause_seconds * 2**number)
        raise ServerUnavailable(endpoint.name, cause or "no session")

    async def call(self, tool: str, arguments: Mapping[str, Any], most_bytes: int) -> str:
        """The result's text, shortened to `most_bytes`. Raises CallFailed. A call is never repeated."""
        if self._client is None or self._holder is None or self._holder.done():
            raise CallFailed("unreachable", f"the MCP server {self.endpoint.name} has ended")
        asked = asyncio.ensure_future(self._client.call_tool(tool, dict(arguments)))
        try:
            await asyncio.wait(
                {asked, self._holder}, timeout=self.endpoint.timeout_seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if not asked.done():
                if self._holder.done():
                    raise CallFailed("unreachable", f"the MCP server {self.endpoint.name} ended during the call")
                raise CallFailed("timeout", f"no result in {self.endpoint.timeout_seconds:g} s")
            found = _result_of(asked)
        finally:
            asked.cancel()
        text = shortened_bytes(_text(found), most_bytes)
        if found.is_error:
            raise CallFailed("tool_error", text or "the tool failed without a word")
        return text

    async def aclose(self) -> None:
        """End the session, however it goes; within the time of a call."""
        self._closing.set()
        if self._holder is None:
            return
        await asyncio.wait({self._holder}, timeout=min(self.endpoint.timeout_seconds, 5.0))
        self._holder.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await self._holder

    async def _start(self) -> str | None:
        """None: the session is open; else what kept it from opening."""
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._holder = asyncio.create_task(self._hold(opened))
        seconds = self.endpoint.timeout_seconds
        await asyncio.wait({self._holder, opened}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if opened.done():
            return None
        if not self._holder.done():
            return f"no session in {seconds:g} s"
        return _words(self._holder.exception())

    async def _hold(self, opened: "asyncio.Future[None]") -> None:
        # What goes wrong is in results and reasons; the SDK would write tracebacks to standard error.
        logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)
        timeout = httpx2.Timeout(self.endpoint.timeout_seconds)
        async with (
            httpx2.AsyncClient(headers=dict(self.endpoint.headers), timeout=timeout, trust_env=False) as http,
            streamable_http_client(self.endpoint.url, http_client=http) as (reading, writing),
            ClientSession(reading, writing) as client,
        ):
            await client.initialize()
            self.tools = await _all_tools(client)
            self._client = client
            opened.set_result(None)
            await self._closing.wait()


async def _all_tools(client: ClientSession) -> list[Tool]:
    tools: list[Tool] = []
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        tools += page.tools
        cursor = page.next_cursor
        if not cursor or len(tools) >= MOST_TOOLS:
            break
    return tools[:MOST_TOOLS]


def _result_of(asked: "asyncio.Future[CallToolResult]") -> CallToolResult:
    try:
        return asked.result()
    except MCPError as error:
        raise CallFailed("tool_error", _words(error)) from error
    except asyncio.CancelledError:
        raise CallFailed("unreachable", "the MCP server ended during the call") from None
    except Exception as error:
        raise CallFailed("unreachable", _words(error)) from error


def _text(found: CallToolResult) -> str:
    """Texts as they are; what is no text is named with its kind and size."""
    return "\n".join(
        item.text if isinstance(item, TextContent) else f"[{item.type} left out: only texts are shown]"
        for item in found.content
    )


def _words(error: BaseException | None) -> str:
    """The innermost of a group, in one short line."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    said = " ".join(str(error).split()) or type(error).__name__
    return shortened_bytes(said, _SHOWN_BYTES)
