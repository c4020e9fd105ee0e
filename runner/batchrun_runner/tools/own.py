"""Tools of the user's own: those of the MCP servers that a prompt has drawn, one session for each."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from batchrun_api.outcomes import Reason
from batchrun_api.spec.mcp import header_purpose
from batchrun_api.text import shortened_bytes
from batchrun_runner.agent.errors import PromptFailed
from batchrun_runner.settings import RunSettings
from batchrun_runner.text import fault_of_ours
from batchrun_runner.tools.context import ToolErrorKind, ToolResult, failure, result

if TYPE_CHECKING:
    from batchrun_runner.mcp_servers.session import McpEndpoint, McpSession

_DESCRIPTION_BYTES = 4_000


@dataclass(frozen=True, slots=True)
class OwnTool:
    """One tool of one server."""

    session: "McpSession"
    name: str
    """As the server knows it."""


@dataclass(frozen=True, slots=True)
class OwnTools:
    """By the names that the model sees."""

    tools: Mapping[str, OwnTool] = field(default_factory=dict)
    schemas: Sequence[dict[str, Any]] = ()

    async def execute(self, name: str, arguments: Mapping[str, Any], most_bytes: int) -> ToolResult:
        """Run one call; whatever goes wrong is a failed result."""
        from batchrun_runner.mcp_servers.errors import CallFailed  # noqa: PLC0415

        tool = self.tools[name]
        try:
            text = await tool.session.call(tool.name, arguments, most_bytes)
        except CallFailed as error:
            return failure(error.kind, error.message)
        except Exception as error:
            return failure(ToolErrorKind.INTERNAL, fault_of_ours(error))
        return result({"result": text, "error": None})


NO_OWN_TOOLS = OwnTools()


@asynccontextmanager
async def open_own_tools(settings: RunSettings, toolsets: Collection[str]) -> AsyncIterator[OwnTools]:
    """The tools of the drawn servers. Raises PromptFailed where one of them gives no session."""
    endpoints = _endpoints(settings, toolsets)
    if not endpoints:
        yield NO_OWN_TOOLS
        return
    # The SDK is loaded for the runs that need it only.
    from batchrun_runner.mcp_servers.errors import ServerUnavailable  # noqa: PLC0415
    from batchrun_runner.mcp_servers.session import McpSession  # noqa: PLC0415

    sessions: list[McpSession] = []
    try:
        opened = await asyncio.gather(*map(McpSession.open, endpoints), return_exceptions=True)
        sessions += [item for item in opened if isinstance(item, McpSession)]
        for item in opened:
            if isinstance(item, ServerUnavailable):
                raise PromptFailed(Reason.MCP_SERVER_UNAVAILABLE, str(item)) from item
            if isinstance(item, BaseException):
                raise item
        yield _tools_of(sessions)
    finally:
        await asyncio.gather(*(session.aclose() for session in sessions))


def _endpoints(settings: RunSettings, toolsets: Collection[str]) -> "list[McpEndpoint]":
    servers = [pair for pair in enumerate(settings.spec.tools.mcp_servers) if pair[1].name in toolsets]
    if not servers:
        return []
    from batchrun_runner.mcp_servers.session import McpEndpoint  # noqa: PLC0415

    return [
        McpEndpoint(
            server.name,
            server.url,
            {
                header.name: header.value or settings.tool_keys.get(header_purpose(number, place), "")
                for place, header in enumerate(server.headers)
            },
            server.timeout_seconds,
        )
        for number, server in servers
    ]


def _tools_of(sessions: "Sequence[McpSession]") -> OwnTools:
    from batchrun_runner.mcp_servers.naming import offered_name  # noqa: PLC0415
    from batchrun_runner.mcp_servers.schemas import cleaned  # noqa: PLC0415

    tools: dict[str, OwnTool] = {}
    schemas = []
    for session in sessions:
        for tool in session.tools:
            name = offered_name(session.endpoint.name, tool.name, tools)
            tools[name] = OwnTool(session, tool.name)
            description = shortened_bytes(tool.description or tool.title or tool.name, _DESCRIPTION_BYTES)
            function = {"name": name, "description": description, "parameters": cleaned(tool.input_schema)}
            schemas.append({"type": "function", "function": function})
    return OwnTools(tools, schemas)
