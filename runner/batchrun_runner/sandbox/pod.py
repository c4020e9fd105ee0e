"""`PodBackend`: the containers are there already; each calls the runner at its own socket."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from batchrun_api.messages import SandboxSignal
from batchrun_api.names import SANDBOX_SOCKETS_DIR
from batchrun_api.outcomes import Outcome, Reason
from batchrun_runner.sandbox.backend import Release, SandboxLease, SandboxRequest, lease
from batchrun_runner.sandbox.client import SandboxConnection
from batchrun_runner.sandbox.errors import SandboxUnavailable
from batchrun_runner.sandbox.listener import SandboxListener

_LOOK_SECONDS = 0.25
_OPERATOR_KNOWS_BETTER = frozenset({Reason.SANDBOX_UNAVAILABLE, Reason.IMAGE_UNAVAILABLE})
SignalOf = Callable[[int], SandboxSignal | None]
"""What the operator has said about a sandbox, by its index."""


class _Slot:
    """One sandbox of the pod: keeps a living connection at hand until the prompt takes it."""

    def __init__(self, folder: Path) -> None:
        self.listener = SandboxListener(folder)
        self._connection: SandboxConnection | None = None
        self._refusal: SandboxUnavailable | None = None
        self._taken = False
        self._changed = asyncio.Condition()
        self._keeper = asyncio.create_task(self._keep())

    async def take(self) -> SandboxConnection:
        """The connection, for good: what connects after it is a blank sandbox and no longer wanted."""
        async with self._changed:
            while self._connection is None or self._connection.is_lost:
                if self._refusal is not None:
                    raise self._refusal
                await self._changed.wait()
            self._taken = True
            return self._connection

    async def stop(self) -> None:
        """Listen no more, and drop a connection that nobody took."""
        self._keeper.cancel()
        await asyncio.wait([self._keeper])
        if self._connection is not None and not self._taken:
            await self._connection.close()

    async def _keep(self) -> None:
        """An idle sandbox may restart (the kubelet does that in silence): then its next life counts."""
        while not self._taken:
            try:
                self._connection = await self.listener.accept()
            except SandboxUnavailable as error:
                self._refusal = error
            async with self._changed:
                self._changed.notify_all()
            if self._refusal is not None or self._connection is None:
                return
            await self._connection.wait_lost()


class PodBackend:
    """Sandboxes 0 to `count` - 1 of this pod. Made inside the running loop; listens from then on."""

    def __init__(
        self,
        count: int,
        *,
        deadline_seconds: float,
        root: Path = Path(SANDBOX_SOCKETS_DIR),
        signal_of: SignalOf | None = None,
        cause_seconds: float = 15.0,
    ) -> None:
        """`signal_of` None: nobody says anything. `cause_seconds`: how long the cause of a loss is waited for."""
        self._cause_seconds = cause_seconds
        self._deadline_seconds = deadline_seconds
        self._signal_of = signal_of
        self._slots = {index: _Slot(root / str(index)) for index in range(count)}

    async def open(self, request: SandboxRequest) -> SandboxLease:
        """Wait for the sandbox of `request.index`, at most the deadline; image and limits are the pod's own."""
        index = request.index
        try:
            async with asyncio.timeout(self._deadline_seconds):
                connection = await self._come(index)
            return await lease(connection, request, self._release_of(index), lambda: self._cause_of_loss(index))
        except TimeoutError:
            detail = f"it did not come up in {self._deadline_seconds:g} s"
            unavailable = SandboxUnavailable(Reason.SANDBOX_UNAVAILABLE, detail)
        except SandboxUnavailable as error:
            unavailable = error
        if unavailable.reason is Reason.IMAGE_UNAVAILABLE:
            await self._cause_of_loss(index)  # the container may be faster than the words about it
        explained = self._explained(index, unavailable)
        await self.retire(index, Outcome.FAILED, explained.reason)
        raise explained from unavailable

    async def _come(self, index: int) -> SandboxConnection:
        """The sandbox's connection. Raises SandboxUnavailable as soon as the operator knows that it cannot come."""
        taking = asyncio.create_task(self._slots[index].take())
        try:
            while not taking.done():
                await asyncio.wait([taking], timeout=_LOOK_SECONDS)
                signal = self._said_of(index)
                if signal is not None and signal.hopeless and not taking.done():
                    raise SandboxUnavailable(signal.reason, signal.message)
            return await taking
        finally:
            taking.cancel()

    async def _cause_of_loss(self, index: int) -> SandboxSignal | None:
        """What the operator saw, which takes it a moment; what it never sees is not waited for longer."""
        if self._signal_of is None:
            return None
        with suppress(TimeoutError):
            async with asyncio.timeout(self._cause_seconds):
                while self._said_of(index) is None:  # noqa: ASYNC110 - a file that somebody else writes
                    await asyncio.sleep(_LOOK_SECONDS)
        return self._said_of(index)

    def _said_of(self, index: int) -> SandboxSignal | None:
        return self._signal_of(index) if self._signal_of is not None else None

    async def retire(self, index: int, outcome: Outcome, reason: Reason | None = None) -> None:
        """Tell sandbox `index` that its prompt is over, whenever it may come: for prompts done in an earlier life."""
        slot = self._slots[index]
        slot.listener.write_done(outcome, reason)
        await slot.stop()

    def is_retired(self, index: int) -> bool:
        """Whether sandbox `index` has been told, by this runner or an earlier one."""
        return self._slots[index].listener.is_done()

    async def close(self) -> None:
        """Drop all connections; sandboxes that were never used go on waiting for a runner."""
        await asyncio.gather(*(slot.stop() for slot in self._slots.values()))

    def _release_of(self, index: int) -> Release:
        async def release(outcome: Outcome, reason: Reason | None) -> None:
            await self.retire(index, outcome, reason)

        return release

    def _explained(self, index: int, error: SandboxUnavailable) -> SandboxUnavailable:
        """The operator knows more: the registry's words, why a pod waits."""
        signal = self._said_of(index)
        if signal is None or not signal.message:
            return error
        reason = signal.reason if error.reason in _OPERATOR_KNOWS_BETTER else error.reason
        return SandboxUnavailable(reason, signal.message)
