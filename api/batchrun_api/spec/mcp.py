"""MCP servers that a user brings: each is a toolset under its own name (docs/decisions/0022)."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from batchrun_api.spec.base import ApiModel, HttpURL, Rule, SecretKeyRef, given

MOST_SERVERS = 16
MOST_HEADERS = 8
SERVER_NAME = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
HEADER_NAME = r"^[-!#$%&'*+.^_`|~0-9A-Za-z]+$"
HEADER_VALUE = r"^[!-~]([ -~]*[!-~])?$"


class McpHeader(ApiModel):
    """A header of every request to an MCP server."""

    name: Annotated[str, Field(min_length=1, max_length=128, pattern=HEADER_NAME)]
    """The header's name: Authorization."""
    value: Annotated[str | None, Field(min_length=1, max_length=4096, pattern=HEADER_VALUE)] = None
    """Its value, where everybody may read it."""
    secret_key_ref: SecretKeyRef | None = None
    """Where its value lies, the word Bearer included. On one machine: in the environment (docs/tools.md)."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.value) != has(self.secretKeyRef)",
            message="a header has a value or a secretKeyRef: give exactly one of the two",
            holds=lambda self: given(self.value, self.secret_key_ref) == 1,
        ),
    )


class McpServer(ApiModel):
    """An MCP server; its tools form a toolset under its name."""

    name: Annotated[str, Field(min_length=1, max_length=32, pattern=SERVER_NAME)]
    """Name of the toolset, and the beginning of its tools' names: calc gives calc__add."""
    url: HttpURL
    """Address of its streamable HTTP endpoint: http://calc.tools.svc:8000/mcp."""
    headers: Annotated[list[McpHeader], Field(max_length=MOST_HEADERS)] = Field(default_factory=list)
    """Sent with every request."""
    timeout_seconds: Annotated[int, Field(ge=1, le=3600)] = 60
    """Longest time of one call, and of connecting, in seconds."""

    def acting(self) -> dict[str, Any]:
        """What of it acts on results."""
        return {"name": self.name}


def header_purpose(server: int, header: int) -> str:
    """What a header's secret is for; both numbers from 0."""
    return f"mcp.{server}.{header}"
