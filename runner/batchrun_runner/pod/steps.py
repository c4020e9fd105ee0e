"""`batchrun plan`, `batch` and `merge` in pods."""

import asyncio
import os
import secrets
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from rich.console import Console

from batchrun_api import frames, names
from batchrun_api.messages import BatchMessage, StepMessage
from batchrun_runner.agent.loop import Agent
from batchrun_runner.batch import Batch
from batchrun_runner.dataset.sources import source_of
from batchrun_runner.ledger.identity import configuration
from batchrun_runner.ledger.recorder import BatchRecorder
from batchrun_runner.merge.merger import merge
from batchrun_runner.merge.table import render_table
from batchrun_runner.plan import make_plan, read_batch_rows
from batchrun_runner.pod.ending import batch_ending, step
from batchrun_runner.pod.enforcement import wait_until_enforced
from batchrun_runner.pod.inputs import open_store, read_settings
from batchrun_runner.pod.logs import LogReporter, log_standstill, set_up_logs
from batchrun_runner.pod.signals import SignalsFile
from batchrun_runner.records import PromptRow
from batchrun_runner.sandbox.pod import PodBackend
from batchrun_runner.settings import RunSettings
from batchrun_runner.stopping import Stop
from batchrun_runner.storage.store import ObjectStore
from batchrun_runner.tools.services import open_services

_SANDBOX_START_SECONDS = 120
"""Beyond the image pull: how long a sandbox may take to call before its prompt fails as SandboxUnavailable."""


def plan_step(config: Path, plan_id: str) -> int:
    """Make the plan and print its frames on stdout, last and in one burst."""

    def verb() -> StepMessage:
        settings = read_settings(config, os.environ)
        set_up_logs(settings, step="plan", plan=plan_id)
        spec = settings.spec
        outcome = make_plan(settings, open_store(settings), source_of(spec.dataset, spec.output), plan_id)
        LogReporter(0).planned(outcome.plan.counts, len(outcome.plan.batches))
        lines = frames.encode(outcome.plan)
        sys.stderr.flush()
        sys.stdout.write("\n".join([*lines, ""]))
        sys.stdout.flush()
        return StepMessage(message=outcome.summary)

    return step(verb)


def merge_step(config: Path, plan_id: str) -> int:
    """Put the results together and print the table."""

    def verb() -> StepMessage:
        settings = read_settings(config, os.environ)
        set_up_logs(settings, step="merge", plan=plan_id)
        with tempfile.TemporaryDirectory() as workdir:
            merged = merge(settings, open_store(settings), plan_id, Path(workdir))
        Console().print(render_table(merged.statistics))
        return StepMessage(result=merged.result.model_dump())

    return step(verb)


def batch_step(config: Path, plan_id: str, *, number: int, offset: int, length: int, attempt: int) -> int:
    """Run one batch; the sandboxes of its pod call in."""

    def verb() -> BatchMessage:
        settings = read_settings(config, os.environ)
        set_up_logs(settings, step="batch", plan=plan_id, batch=number, attempt=attempt)
        store = open_store(settings)
        with asyncio.Runner() as runner:
            return runner.run(_BatchPod(settings, store, plan_id, number).run(offset, length))

    return batch_ending(verb)


async def _retire_ended(sandboxes: PodBackend, recorder: BatchRecorder, rows: Sequence[PromptRow]) -> None:
    """Sandboxes of prompts that ended before this runner, or without one, are told so."""
    ends = recorder.ends()
    for index, row in enumerate(rows):
        if row.key in ends and not sandboxes.is_retired(index):
            await sandboxes.retire(index, *ends[row.key])


async def _browser_socket() -> Path:
    return Path(names.BROWSER_SOCKET)


class _BatchPod:
    """One life of a batch pod's runner container."""

    def __init__(self, settings: RunSettings, store: ObjectStore, plan_id: str, number: int) -> None:
        self._settings = settings
        self._store = store
        self._plan_id = plan_id
        self._number = number
        self._config_digest = configuration(settings).digest
        self._stop = Stop()

    async def run(self, offset: int, length: int) -> BatchMessage:
        """Returns the counts; prompts are left where the pod was asked to stop."""
        from batchrun_runner.model.client import ModelClient  # noqa: PLC0415 - takes long, plan and merge need none

        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._stop.now, "SIGTERM")
        if self._settings.spec.sandbox.network.is_internet_only:
            await wait_until_enforced(os.environ, self._stop)
        signals = SignalsFile(self._stop)
        rows = await asyncio.to_thread(
            read_batch_rows, self._store, self._plan_id, number=self._number, offset=offset, length=length
        )
        recorder = await asyncio.to_thread(self._recorder)
        deadline = self._settings.spec.sandbox.image_pull_timeout_seconds + _SANDBOX_START_SECONDS
        async with AsyncExitStack() as stack:
            sandboxes = PodBackend(len(rows), deadline_seconds=deadline, signal_of=signals.of_sandbox)
            stack.push_async_callback(sandboxes.close)
            watching = asyncio.create_task(signals.watch())
            stack.callback(watching.cancel)
            await _retire_ended(sandboxes, recorder, rows)
            client = await stack.enter_async_context(ModelClient.from_settings(self._settings, log_standstill))
            services = await stack.enter_async_context(
                open_services(self._settings, client, self._store, _browser_socket)
            )
            batch = Batch(
                number=self._number,
                settings=self._settings,
                agent=Agent.from_settings(client, self._settings),
                sandboxes=sandboxes,
                recorder=recorder,
                config_digest=self._config_digest,
                reporter=LogReporter(self._settings.spec.logging.prefix_chars),
                stop=self._stop,
                services=services,
                signals=signals.newest,
            )
            message = await batch.run(rows)
            await _retire_ended(sandboxes, recorder, rows)
            return message

    def _recorder(self) -> BatchRecorder:
        return BatchRecorder(
            self._store,
            batch=self._number,
            writer=f"pod-{secrets.token_hex(6)}",
            run_name=self._settings.run_name,
            config_digest=self._config_digest,
            filters=self._settings.spec.filters,
            samples_per_prompt=self._settings.spec.samples_per_prompt,
        )
