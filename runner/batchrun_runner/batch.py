"""The batch step: the agent over the prompts of one batch, each in its own sandbox, each stored as soon as it ends."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property

from batchrun_api.availability import available
from batchrun_api.checks import distribution_of
from batchrun_api.messages import BatchMessage, Signals
from batchrun_api.outcomes import DONE_OUTCOMES, Outcome, Reason
from batchrun_api.spec.sandbox import Sandbox
from batchrun_runner.agent.conversation import conversation
from batchrun_runner.agent.draw import draw_toolsets
from batchrun_runner.agent.errors import PromptFailed
from batchrun_runner.agent.loop import Agent
from batchrun_runner.agent.trajectory import to_row
from batchrun_runner.ledger.artifacts import ArtifactPlace
from batchrun_runner.ledger.recorder import BatchRecorder
from batchrun_runner.losses import Indexed, in_order, verdict_of_losses
from batchrun_runner.model.errors import StopRun
from batchrun_runner.model.sampling import sampling_of
from batchrun_runner.progress import Reporter
from batchrun_runner.prompt_keys import sample_of
from batchrun_runner.records import NO_ARTIFACTS, Artifacts, PromptResult, PromptRow
from batchrun_runner.sandbox.backend import SandboxBackend, SandboxLease, SandboxRequest
from batchrun_runner.sandbox.collecting import collect
from batchrun_runner.sandbox.errors import SandboxLost, SandboxUnavailable, SetupFailed
from batchrun_runner.sandbox.preparing import prepare
from batchrun_runner.sandbox.verifying import verify
from batchrun_runner.settings import RunSettings
from batchrun_runner.stopping import Stop
from batchrun_runner.storage.errors import StorageError
from batchrun_runner.text import fault_of_ours
from batchrun_runner.tools.context import ToolLimits
from batchrun_runner.tools.own import open_own_tools
from batchrun_runner.tools.services import NO_SERVICES, ToolServices
from batchrun_runner.tools.toolbox import SandboxToolbox


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Batch:
    """One batch and what its prompts share."""

    number: int
    settings: RunSettings
    agent: Agent
    sandboxes: SandboxBackend
    recorder: BatchRecorder
    config_digest: str
    reporter: Reporter
    stop: Stop
    services: ToolServices = NO_SERVICES
    signals: Callable[[], Signals] = Signals
    """What the operator has said of this batch by now."""
    now: Callable[[], datetime] = _utc_now
    monotonic: Callable[[], float] = time.monotonic
    _collecting: asyncio.Lock = field(default_factory=asyncio.Lock)
    samplings: dict[int, str] = field(default_factory=dict)
    """What rows say of how the model was asked, by sample; filled as they come."""

    @cached_property
    def _available(self) -> frozenset[str]:
        return available(self.settings.spec)

    async def run(self, rows: Sequence[PromptRow]) -> BatchMessage:
        """Work on every row that has no stored end yet, `promptsPerPod` at a time, and write the batch's objects.

        Raises StopRun (model.errors), StorageError and HelperMissing; what is stored by then stays.
        """
        done = self.recorder.ends()
        todo = [(index, row) for index, row in enumerate(rows) if row.key not in done]
        self.reporter.batch_started(self.number, len(todo))
        for prompts, at_once in in_order(
            todo, self.recorder.starts, self.signals(), self.settings.spec.prompts_per_pod
        ):
            await self._work(prompts, at_once)
        totals = await asyncio.to_thread(self.recorder.finish)
        self.reporter.batch_ended(self.number)
        ended = totals.completed + totals.truncated + totals.discarded + totals.failed
        return BatchMessage(
            completed=totals.completed,
            truncated=totals.truncated,
            discarded=totals.discarded,
            failed=totals.failed,
            left=len(rows) - ended,
        )

    async def _work(self, todo: Sequence[Indexed], at_once: int) -> None:
        """Prompts in order; the first error that is no prompt's own ends all of them."""
        queue = iter(todo)

        async def worker() -> None:
            for index, row in queue:
                if self.stop.is_asked:
                    return
                await self._prompt(index, row)

        async def watch() -> None:
            await self.stop.wait_now()
            for task in workers:
                task.cancel()

        try:
            async with asyncio.TaskGroup() as group:
                watcher = group.create_task(watch())
                workers = [group.create_task(worker()) for _ in range(at_once)]
                await asyncio.wait(workers)
                watcher.cancel()
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _prompt(self, index: int, row: PromptRow) -> None:
        given_up = verdict_of_losses(index, self.recorder.starts(row.key), self.signals())
        if given_up is not None:
            await _uninterrupted(self._conclude(row, None, self._failed(row, *given_up)))
            return
        await asyncio.to_thread(self.recorder.mark_started, row)
        try:
            lease, result = await self._attempt(index, row)
        except (asyncio.CancelledError, StopRun):
            await asyncio.to_thread(self.recorder.unmark_started, row)
            self.reporter.prompt_ended(self.number, row, self._failed(row, None, "", Outcome.INTERRUPTED))
            raise
        await _uninterrupted(self._conclude(row, lease, result))

    async def _attempt(self, index: int, row: PromptRow) -> tuple[SandboxLease | None, PromptResult]:
        sandbox = self.settings.spec.sandbox
        request = sandbox_request(sandbox, index, row)
        start = self.monotonic()
        lease: SandboxLease | None = None
        try:
            lease = await self.sandboxes.open(request)
            await prepare(lease, row, sandbox.command_timeout_seconds)
        except SandboxUnavailable as error:
            result = self._failed(row, error.reason, error.detail)
        except SetupFailed as error:
            result = self._failed(row, Reason.SETUP_FAILED, error.detail)
        except SandboxLost as error:
            result = self._failed(row, Reason.SANDBOX_LOST, f"in its setup: {error}")
            result = await _with_cause(lease, result)
        else:
            waited = self.monotonic() - start
            result = replace(await self._worked(lease, row), sandbox_seconds=waited)
            return lease, replace(result, seconds=self.monotonic() - start)
        waited = self.monotonic() - start
        boot_id = lease.sandbox.hello.boot_id if lease else ""
        return lease, replace(result, seconds=waited, sandbox_seconds=waited, boot_id=boot_id)

    async def _conclude(self, row: PromptRow, lease: SandboxLease | None, result: PromptResult) -> None:
        """Stored first, then the sandbox ends, then it is told: nobody hears of an end that could be lost."""
        stored = await self._store(row, result)
        if lease is not None:
            await lease.finish(stored.outcome, stored.reason)
        self.reporter.prompt_ended(self.number, row, stored)

    async def _worked(self, lease: SandboxLease, row: PromptRow) -> PromptResult:
        """Agent, artifacts, verifier. A fault of ours over one prompt's odd data is no end of the others'."""
        try:
            result = await self._agent_in(lease, row)
            result = replace(result, artifacts=await self._artifacts(lease, row))
            return await self._verified(lease, row, result)
        except (StopRun, StorageError):
            raise
        except Exception as error:
            return self._failed(row, Reason.INTERNAL, fault_of_ours(error))

    async def _agent_in(self, lease: SandboxLease, row: PromptRow) -> PromptResult:
        spec = self.settings.spec
        toolsets = draw_toolsets(distribution_of(spec) or {}, self._available, (self.settings.run_name, row.key))
        limits = ToolLimits(
            command_seconds=spec.sandbox.command_timeout_seconds,
            max_command_seconds=spec.sandbox.command_timeout_seconds,
        )
        try:
            async with open_own_tools(self.settings, toolsets) as own:
                toolbox = SandboxToolbox(lease, toolsets, limits, row.env, self.services, row.key, own)
                result = await _with_cause(lease, await self.agent.within(row).run(row, toolbox, toolsets))
        except PromptFailed as error:
            result = self._failed(row, error.reason, error.message)
        image = row.image or spec.sandbox.image
        return replace(result, sandbox_image=image, boot_id=lease.sandbox.hello.boot_id)

    async def _artifacts(self, lease: SandboxLease, row: PromptRow) -> Artifacts:
        """Brought out and stored, however the agent ended. One prompt at a time: each may hold a whole file."""
        if row.collect is None:
            return NO_ARTIFACTS
        place = self.recorder.artifacts(row)
        seconds = self.settings.spec.sandbox.command_timeout_seconds
        async with self._collecting:
            found = await collect(lease, row.collect, row.env, seconds, _Kept(place))
        return replace(found, place=place.place, work=row.work)

    async def _verified(self, lease: SandboxLease, row: PromptRow, result: PromptResult) -> PromptResult:
        """The result with the verifier's verdict; a prompt that failed has nothing to judge, and runs again."""
        if row.verify is None or result.outcome not in DONE_OUTCOMES:
            return result
        start = self.monotonic()
        seconds = self.settings.spec.sandbox.command_timeout_seconds
        verification = await verify(lease, row.verify, row.env, seconds)
        verification = replace(verification, seconds=self.monotonic() - start)
        result = replace(result, verification=verification)
        if not verification.fault:
            return result
        return replace(result, outcome=Outcome.FAILED, reason=Reason.VERIFIER_FAILED, message=verification.fault)

    async def _store(self, row: PromptRow, result: PromptResult) -> PromptResult:
        """Durable when this returns; the result under the run's filters."""
        filtered = self.recorder.filtered(result)
        line = to_row(
            row,
            filtered,
            batch_number=self.number,
            timestamp=self.now().isoformat(timespec="microseconds"),
            model=self.settings.spec.model.name,
            config_digest=self.config_digest,
            sampling=self._sampling(sample_of(row.key)),
        )
        await asyncio.to_thread(self.recorder.record, row, filtered, line, unfiltered=result)
        return filtered

    def _sampling(self, sample: int) -> str:
        """Samples differ by their seed alone."""
        shown = sample if self.settings.spec.model.sampling.seed is not None else 0
        if shown not in self.samplings:
            self.samplings[shown] = sampling_of(self.settings, shown)
        return self.samplings[shown]

    def _failed(
        self, row: PromptRow, reason: Reason | None, message: str, outcome: Outcome = Outcome.FAILED
    ) -> PromptResult:
        """The result of a prompt that no model was asked about."""
        return PromptResult(
            outcome,
            reason,
            message,
            conversations=conversation(self.settings.spec.agent.system_prompt, row.prompt, []),
            sandbox_image=row.image or self.settings.spec.sandbox.image,
        )


@dataclass(frozen=True, slots=True)
class _Kept:
    """Artifacts go to the store from threads."""

    place: ArtifactPlace

    async def keep(self, path: str, data: bytes) -> str:
        return await asyncio.to_thread(self.place.keep, path, data)

    async def keep_output(self, data: bytes) -> None:
        await asyncio.to_thread(self.place.keep_output, data)


def sandbox_request(sandbox: Sandbox, index: int, row: PromptRow) -> SandboxRequest:
    """What a prompt wants of its sandbox, under the run's settings."""
    limits = row.container.over(sandbox.resources).limits
    return SandboxRequest(
        index,
        row.image,
        row.cwd,
        max_processes=sandbox.max_processes,
        memory=str(limits.memory or ""),
        cpus=str(limits.cpu or ""),
        user=row.container.user,
        network=sandbox.network.for_commands,
    )


async def _with_cause(lease: SandboxLease | None, result: PromptResult) -> PromptResult:
    """A lost sandbox with the cause that only whoever runs its container knows."""
    cause = await lease.cause_of_loss() if lease is not None and result.reason is Reason.SANDBOX_LOST else None
    if cause is None:
        return result
    return replace(result, reason=cause.reason, message=f"{cause.message} ({result.message})")


async def _uninterrupted(work: Coroutine[None, None, None]) -> None:
    """Finish `work` even when cancelled meanwhile; the cancellation goes on afterwards."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
