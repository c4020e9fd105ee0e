"""What can go wrong with MCP servers.

ServerUnavailable   no session could be opened: the prompt cannot begin; data: server and cause
CallFailed          one call gave no result; data: kind (unreachable, timeout, tool_error, ...) and message
"""


class ServerUnavailable(Exception):
    """The message names the server, the cause and the fix."""

    def __init__(self, server: str, cause: str) -> None:
        super().__init__(
            f"MCP server {server}: {cause}; see that it runs, and that url and headers of "
            "spec.tools.mcpServers are right"
        )
        self.server = server


class CallFailed(Exception):
    """The model is told so."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
