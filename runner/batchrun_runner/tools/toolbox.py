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
    ) -> None:
        """`env`: the row's own variables. `services`: what all prompts share. `key`: the prompt's."""
        names = registry.tools_of(toolsets)
        browser = services.browser.connection() if services.browser is not None else None
        self._context = ToolContext(lease.sandbox, lease.cwd, names, limits, env, services, key=key, browser=browser)
        self.schemas: list[dict[str, Any]] = registry.schemas(names)

    async def execute(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Run one call. Raises PromptFailed when the sandbox is gone: nothing is repeated in a blank one."""
        try:
            return await registry.execute(name, arguments, self._context)
        except SandboxLost as error:
            raise PromptFailed(Reason.SANDBOX_LOST, str(error)) from error

    async def aclose(self) -> None:
        """The prompt has ended: its browser goes."""
        if self._context.browser is not None:
            await self._context.browser.aclose()

    def take_usage(self) -> Usage:
        """What models that tools asked have used since the last time this was called."""
        return self._context.take_usage()
