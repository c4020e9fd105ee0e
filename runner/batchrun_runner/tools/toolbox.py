"""The tools of one prompt, as the agent loop sees them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from batchrun_api.outcomes import Reason
from batchrun_runner.agent.errors import PromptFailed
from batchrun_runner.records import Usage
from batchrun_runner.sandbox.backend import SandboxLease
from batchrun_runner.sandbox.errors import SandboxLost
from batchrun_runner.tools import registry
from batchrun_runner.tools.context import ToolContext, ToolLimits, ToolResult
from batchrun_runner.tools.own import NO_OWN_TOOLS, OwnTools
from batchrun_runner.tools.services import NO_SERVICES, ToolServices


class SandboxToolbox:
    """The tools of the drawn toolsets, working in the prompt's sandbox."""

    def __init__(
        self,
        lease: SandboxLease,
        toolsets: tuple[str, ...],
        limits: ToolLimits,
        env: Mapping[str, str] = MappingProxyType({}),
        services: ToolServices = NO_SERVICES,
        key: str = "",
        own: OwnTools = NO_OWN_TOOLS,
    ) -> None:
        """`env`: the row's own variables. `services`: what all prompts share. `key`: the prompt's.

        `own`: tools of its MCP servers.
        """
        names = registry.tools_of(toolsets)
        self._context = ToolContext(lease.sandbox, lease.cwd, names, limits, env, services, key=key)
        self.schemas: list[dict[str, Any]] = [*registry.schemas(names), *own.schemas]
        self._own = own

    async def execute(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Run one call. Raises PromptFailed when the sandbox is gone: nothing is repeated in a blank one."""
        if name in self._own.tools:
            return await self._own.execute(name, arguments, self._context.limits.read_bytes)
        try:
            return await registry.execute(name, arguments, self._context)
        except SandboxLost as error:
            raise PromptFailed(Reason.SANDBOX_LOST, str(error)) from error

    def take_usage(self) -> Usage:
        """What models that tools asked have used since the last time this was called."""
        return self._context.take_usage()
