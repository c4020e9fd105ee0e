"""`ProcessBackend`: sandboxd as a local process in a folder of its own. No isolation: commands run as the user."""

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

from batchrun_api.outcomes import Outcome, Reason
from batchrun_runner.sandbox.backend import SandboxLease, SandboxRequest, lease
from batchrun_runner.sandbox.errors import SandboxUnavailable
from batchrun_runner.sandbox.helper import find_sandboxd
from batchrun_runner.sandbox.launched import Launched
from batchrun_runner.sandbox.workspace import Workspace, remove_tree

_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ")
"""All that a command may know of the user's environment: keys of models and clouds stay out."""


class ProcessBackend:
    """One sandboxd per prompt. `helper` None finds or builds it at the first prompt."""

    def __init__(
        self,
        *,
        helper: Path | None = None,
        deadline_seconds: float = 30.0,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._helper = helper
        self._finding = asyncio.Lock()
        self._deadline_seconds = deadline_seconds
        self._environ = environ
        self._workspace = Workspace()
        self._open: set[Launched] = set()

    async def open(self, request: SandboxRequest) -> SandboxLease:
        """A new process in a new folder; a row that names an image or a user fails alone."""
        if request.image:
            detail = f"process mode has no images, and this row wants {request.image}: run with --sandbox container"
            raise SandboxUnavailable(Reason.IMAGE_UNAVAILABLE, detail)
        if request.user:
            detail = f"process mode has one user, and this row wants {request.user}: run with --sandbox container"
            raise SandboxUnavailable(Reason.SANDBOX_UNAVAILABLE, detail)
        helper = await self._find_helper()
        folder = await self._workspace.sandbox_folder()
        launched = Launched(folder, self._command(helper, folder), _environment(folder, self._environ), folder / "work")
        self._open.add(launched)

        async def release(_outcome: Outcome, _reason: Reason | None) -> None:
            await launched.stop()
            await asyncio.to_thread(remove_tree, folder)
            self._open.discard(launched)

        try:
            for name in ("work", "home", "tmp"):
                (folder / name).mkdir()
            connection = await launched.connect(self._deadline_seconds)
        except BaseException:
            await release(Outcome.FAILED, None)
            raise
        return await lease(connection, request, release)

    async def close(self) -> None:
        """End every process that is still open."""
        await asyncio.gather(*(launched.stop() for launched in self._open))
        self._open.clear()
        await asyncio.to_thread(self._workspace.close)

    async def _find_helper(self) -> Path:
        async with self._finding:
            if self._helper is None:
                self._helper = await asyncio.to_thread(find_sandboxd, self._environ)
            return self._helper

    @staticmethod
    def _command(helper: Path, folder: Path) -> list[str]:
        socket = str(folder / "s.sock")
        return [str(helper), "serve", "--socket", socket, "--once", "--shared-files", "--termination-log", ""]


def _environment(folder: Path, environ: Mapping[str, str]) -> dict[str, str]:
    passed = {name: environ[name] for name in _PASSED_ON if name in environ}
    return passed | {"HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp")}
