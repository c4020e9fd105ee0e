"""A real MCP server made with the official SDK: `python -m tests.cluster.harness.mcp_server PORT`."""

from __future__ import annotations

import os
import sys

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ImageContent

server = MCPServer("tests")


@server.tool()
def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool(name="odd.name/with blanks " + "x" * 80)
def odd() -> str:
    """Its name fits no model API."""
    return "odd"


@server.tool()
def refuse() -> str:
    """Fails."""
    raise ToolError("not today")


@server.tool()
def picture() -> ImageContent:
    """Gives a picture."""
    return ImageContent(type="image", data="aGVsbG8=", mime_type="image/png")


@server.tool()
def huge() -> str:
    """Gives much more than anybody reads."""
    return "y" * 500_000


@server.tool()
async def slow() -> str:
    """Never ends."""
    await anyio.sleep_forever()
    return ""


@server.tool()
def die() -> str:
    """Ends the server."""
    os._exit(1)


if __name__ == "__main__":
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
