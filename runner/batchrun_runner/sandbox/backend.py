"""`SandboxBackend`: who makes sandboxes exist, and the lease of one for the time of a prompt."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from batchrun_api.messages import SandboxSignal
from batchrun_api.outcomes import Outcome, Reason
from batchrun_api.spec.sandbox import CommandNetwork
from batchrun_runner.sandbox.errors import SandboxError, SandboxLost, SandboxUnavailable
from batchrun_runner.sandbox.interface import Sandbox


@dataclass(frozen=True, slots=True)
class SandboxRequest:
    """What one prompt wants of its sandbox.

    `index` is the prompt's place in its batch (the container's number in a pod). An empty `image` is the backend's
    own; an empty `cwd` the image's. `max_processes` 0 means no limit; `memory` and `cpus` are Kubernetes quantities
    (`512Mi`, `250m`) for a container engine, empty for no limit, `user` is `uid` or `uid:gid`,
    empty for the image's own; all three are ignored where Kubernetes sets them.
    """

    index: int
    image: str = ""
    cwd: str = ""
    max_processes: int = 0
    memory: str = ""
    cpus: str = ""
    user: str = ""
    network: CommandNetwork = "Open"


Release = Callable[[Outcome, Reason | None], Awaitable[None]]
CauseOfLoss = Callable[[], Awaitable[SandboxSignal | None]]
"""Why a sandbox was lost, as far as whoever made it can tell. May wait a little for the answer."""


async def _unknown() -> None:
    return None


@dataclass(slots=True)
class SandboxLease:
    """A sandbox that serves one prompt. `finish` must be called in the end, whatever happened."""

    sandbox: Sandbox
    cwd: str
    """Where commands of the prompt begin: an existing absolute folder."""
    _release: Release
    cause_of_loss: CauseOfLoss = _unknown
    """To be asked after a SandboxLost."""
    _finished: bool = False

    async def finish(self, outcome: Outcome, reason: Reason | None = None) -> None:
        """End the sandbox with its prompt's outcome and remove what was made for it. A second call does nothing."""
        if self._finished:
            return
        self._finished = True
        try:
            with suppress(SandboxLost, SandboxError):
                await self.sandbox.end(outcome, reason)
        finally:
            await self._release(outcome, reason)


class SandboxBackend(Protocol):
    """Opens sandboxes for prompts, several at a time."""

    async def open(self, request: SandboxRequest) -> SandboxLease:
        """The sandbox of a prompt, ready to work in. Raises SandboxUnavailable, which fails that prompt alone,
        or HelperMissing, which fails them all."""

    async def close(self) -> None:
        """Remove whatever is left."""


async def lease(
    sandbox: Sandbox, request: SandboxRequest, release: Release, cause_of_loss: CauseOfLoss = _unknown
) -> SandboxLease:
    """A lease of a connected sandbox that may serve; one that may not is ended with the reason.

    Raises SandboxUnavailable: the runner's own image instead of the prompt's, a visible identity, or a working
    directory that neither exists nor can be made.
    """
    made = SandboxLease(sandbox, sandbox.hello.cwd, release, cause_of_loss)
    try:
        _check_hello(sandbox)
        if request.max_processes or request.network != "Open":
            await _configure(sandbox, request)
        if request.cwd:
            made.cwd = await _make_cwd(sandbox, request.cwd)
    except SandboxUnavailable as error:
        await made.finish(Outcome.FAILED, error.reason)
        raise
    except BaseException as error:
        await made.finish(Outcome.FAILED, Reason.SANDBOX_UNAVAILABLE)
        if isinstance(error, SandboxLost):
            raise SandboxUnavailable(Reason.SANDBOX_UNAVAILABLE, f"it was lost at its start: {error}") from error
        raise
    return made


def _check_hello(sandbox: Sandbox) -> None:
    hello = sandbox.hello
    if hello.runner_image:
        raise SandboxUnavailable(Reason.IMAGE_UNAVAILABLE, "the image could not be pulled")
    if hello.refused:
        seen = ", ".join(hello.identity_tokens[:5])
        raise SandboxUnavailable(Reason.IDENTITY_TOKEN_PRESENT, f"the sandbox can see an identity: {seen}")


async def _configure(sandbox: Sandbox, request: SandboxRequest) -> None:
    """Never weakened: where a limit cannot be set, the prompt does not run."""
    try:
        await sandbox.configure(max_processes=request.max_processes, network=request.network)
    except SandboxError as error:
        raise SandboxUnavailable(Reason.SANDBOX_UNAVAILABLE, error.message) from error


async def _make_cwd(sandbox: Sandbox, cwd: str) -> str:
    try:
        return (await sandbox.make_directory(cwd, cwd=sandbox.hello.cwd)).path
    except SandboxError as error:
        detail = f"the working directory {cwd} cannot be made: {error.message}"
        raise SandboxUnavailable(Reason.SANDBOX_UNAVAILABLE, detail) from error
