"""The batches of a plan in one process: `numWorkers` at a time."""

import asyncio
import secrets
from collections.abc import Iterator
from dataclasses import dataclass

from batchrun_api.outcomes import Outcome, Reason
from batchrun_api.plan import PlanCounts, PlannedBatch
from batchrun_runner.agent.loop import Agent
from batchrun_runner.batch import Batch
from batchrun_runner.ledger.recorder import BatchRecorder
from batchrun_runner.plan import PlanOutcome, read_batch_rows
from batchrun_runner.progress import Reporter
from batchrun_runner.records import PromptResult, PromptRow
from batchrun_runner.sandbox.backend import SandboxBackend
from batchrun_runner.settings import RunSettings
from batchrun_runner.stopping import Stop
from batchrun_runner.storage.store import ObjectStore
from batchrun_runner.tools.services import NO_SERVICES, ToolServices

ALL_DISCARDED_AFTER = 20
"""Prompts that must all be discarded before the run stops itself (the mission's number)."""


@dataclass(frozen=True)
class Engine:
    """Runs every batch of a plan that is made already."""

    settings: RunSettings
    store: ObjectStore
    agent: Agent
    sandboxes: SandboxBackend
    reporter: Reporter
    stop: Stop
    services: ToolServices = NO_SERVICES

    async def run(self, outcome: PlanOutcome) -> None:
        """Returns when all batches are done or the stop was asked for. An error that is no prompt's own ends it."""
        queue = iter(outcome.plan.batches)
        workers = min(self.settings.spec.num_workers, len(outcome.plan.batches))
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(self._worker(queue, outcome))
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _worker(self, queue: Iterator[PlannedBatch], outcome: PlanOutcome) -> None:
        for planned in queue:
            if self.stop.is_asked:
                return
            rows = await asyncio.to_thread(
                read_batch_rows,
                self.store,
                outcome.plan.plan_id,
                number=planned.number,
                offset=planned.offset,
                length=planned.length,
            )
            recorder = await asyncio.to_thread(self._recorder, planned.number, outcome.config_digest)
            batch = Batch(
                planned.number,
                self.settings,
                self.agent,
                self.sandboxes,
                recorder,
                outcome.config_digest,
                self.reporter,
                self.stop,
                self.services,
            )
            await batch.run(rows)

    def _recorder(self, number: int, config_digest: str) -> BatchRecorder:
        return BatchRecorder(
            self.store,
            batch=number,
            writer=f"local-{secrets.token_hex(6)}",
            run_name=self.settings.run_name,
            config_digest=config_digest,
            filters=self.settings.spec.filters,
            samples_per_prompt=self.settings.spec.samples_per_prompt,
        )


class DiscardWatch:
    """A reporter in front of another one: asks for the stop when nothing but discarded prompts comes out."""

    def __init__(self, reporter: Reporter, stop: Stop) -> None:
        self._reporter = reporter
        self._stop = stop
        self._discarded = 0
        self._is_over = False

    def planned(self, counts: PlanCounts, batches: int) -> None:
        """See Reporter."""
        self._is_over = counts.completed + counts.truncated > 0
        self._reporter.planned(counts, batches)

    def batch_started(self, number: int, prompts: int) -> None:
        """See Reporter."""
        self._reporter.batch_started(number, prompts)

    def prompt_ended(self, number: int, row: PromptRow, result: PromptResult) -> None:
        """See Reporter."""
        self._reporter.prompt_ended(number, row, result)
        if result.outcome in {Outcome.COMPLETED, Outcome.TRUNCATED}:
            self._is_over = True
        self._discarded += result.reason is Reason.NO_REASONING
        if self._discarded >= ALL_DISCARDED_AFTER and not self._is_over:
            self._is_over = True
            self._stop.drain(
                f"AllDiscarded: the first {self._discarded} prompts were all discarded for lack of reasoning; "
                "set filters.requireReasoning to false for a model whose reasoning is not visible, and run again"
            )

    def batch_ended(self, number: int) -> None:
        """See Reporter."""
        self._reporter.batch_ended(number)

    def note(self, text: str) -> None:
        """See Reporter."""
        self._reporter.note(text)
