"""MCP servers whose tools are toolsets of the user's own (docs/decisions/0022)."""

from typing import Annotated, Any, ClassVar

from pydantic import Field

from batchrun_api.spec.base import ApiModel, HttpURL, Rule, SecretKeyRef, given

SERVER_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
HEADER_NAME = r"^[-A-Za-z0-9_.]+$"
HEADER_VALUE = r"^[!-~]([ -~]*[!-~])?$"
MOST_SERVERS = 8
MOST_HEADERS = 8


class McpHeaderSource(ApiModel):
    """Where the value of a header lies."""

    secret_key_ref: SecretKeyRef
    """A key of a Secret in the run's namespace."""


class McpHeader(ApiModel):
    """A header that each request to the server carries."""

    name: Annotated[str, Field(min_length=1, max_length=128, pattern=HEADER_NAME)]
    """Name of the header: Authorization."""
    value: Annotated[str, Field(min_length=1, max_length=4096, pattern=HEADER_VALUE)] | None = None
    """Its value, for everybody to read."""
    value_from: McpHeaderSource | None = None
    """Its value from a Secret; the whole of it, `Bearer` included."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.value) != has(self.valueFrom)",
            message="a header has either value or valueFrom",
            holds=lambda self: given(self.value, self.value_from) == 1,
        ),
    )


class McpServer(ApiModel):
    """An MCP server (streamable HTTP); its tools form the toolset of its name."""

    name: Annotated[str, Field(min_length=1, max_length=24, pattern=SERVER_NAME)]
    """Name of the toolset, and the beginning of its tools' names: `<name>__<tool>`."""
    url: HttpURL
    """Address of the server's endpoint: https://tools.example.com/mcp. It may be inside the cluster."""
    headers: Annotated[list[McpHeader], Field(max_length=MOST_HEADERS)] = Field(default_factory=list)
    """Headers of each request, keys for instance."""
    timeout_seconds: Annotated[int, Field(ge=1, le=3600)] = 60
    """Longest time of one call, and of the start of a session, in seconds."""

    def acting(self) -> dict[str, Any]:
        """What of it acts on results."""
        return {"name": self.name}

    def header_refs(self, number: int) -> dict[str, SecretKeyRef]:
        """Secrets of its headers, by what they are for; `number` is its place among the servers."""
        return {
            header_purpose(number, place): header.value_from.secret_key_ref
            for place, header in enumerate(self.headers)
            if header.value_from is not None
        }


def header_purpose(server: int, header: int) -> str:
    """What the value of a header is for; both numbers from 0."""
    return f"mcp.{server}.{header}"


HEADER_PURPOSES = tuple(
    header_purpose(server, header) for server in range(MOST_SERVERS) for header in range(MOST_HEADERS)
)
