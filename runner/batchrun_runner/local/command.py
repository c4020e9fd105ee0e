"""The verb: inputs, plan, batches, merge, table. Exit codes 0, 1, 2 as the README says; 130 after an interrupt."""

import asyncio
import os
import secrets
import signal
import sys
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import uvloop
from rich.console import Console

from batchrun_api.exit_codes import ExitCode
from batchrun_api.messages import MergeResult
from batchrun_runner.agent.loop import Agent
from batchrun_runner.dataset.errors import DatasetError
from batchrun_runner.dataset.sources import Source
from batchrun_runner.demo_model.server import DemoModel
from batchrun_runner.documents import InvalidFile, load_run
from batchrun_runner.ledger.ownership import PlanRefused
from batchrun_runner.local.backends import backend_for
from batchrun_runner.local.engine import DiscardWatch, Engine
from batchrun_runner.local.inputs import BadInput, is_embedded_demo, settings_of, source_for
from batchrun_runner.local.lock import folder_lock
from batchrun_runner.local.mending import what_to_mend
from batchrun_runner.merge.merger import Merged, merge
from batchrun_runner.merge.table import render_table
from batchrun_runner.model.errors import StopRun
from batchrun_runner.model.gate import Standstill
from batchrun_runner.plan import PlanOutcome, make_plan
from batchrun_runner.progress import Reporter, reporter_for
from batchrun_runner.sandbox.backend import SandboxBackend
from batchrun_runner.sandbox.errors import HelperMissing
from batchrun_runner.settings import RunSettings
from batchrun_runner.stopping import Stop
from batchrun_runner.storage.errors import StorageError
from batchrun_runner.storage.folder import FolderStore

INTERRUPTED = 128 + signal.SIGINT
"""The shell's convention for a process that SIGINT ended."""


def run_local(file: Path, output: Path, sandbox_mode: str | None) -> int:
    """Run a BatchRun file on this machine; results go to `output/<runName>/`. Returns the exit code."""
    try:
        run_file = load_run(file, for_cluster=False)
        settings = settings_of(file, run_file, os.environ)
        source = source_for(file, run_file)
        backend, note = backend_for(sandbox_mode, settings.spec, is_demo=is_embedded_demo(run_file))
        folder = output / settings.run_name
        with folder_lock(folder), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            run = _Run(settings, source, folder, backend, note, is_embedded_demo(run_file))
            return runner.run(run.run())
    except (InvalidFile, BadInput, PlanRefused, DatasetError, HelperMissing) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except StorageError as error:
        sys.stderr.write(f"{output}: {error}\n")
        return 2


def _teller(reporter: Reporter) -> Callable[[Standstill], None]:
    def tell(standstill: Standstill) -> None:
        reporter.note(str(standstill))

    return tell


class _Run:
    """One call of the verb, with its inputs checked."""

    def __init__(
        self, settings: RunSettings, source: Source, folder: Path, backend: SandboxBackend, note: str, is_demo: bool
    ) -> None:
        self._settings = settings
        self._source = source
        self._folder = folder
        self._store = FolderStore(folder)
        self._backend = backend
        self._note = note
        self._is_demo = is_demo
        self._stop = Stop()
        self._blocked = ""
        """What must be mended before the run can go on."""
        self._console = Console()

    async def run(self) -> int:
        """Plan, batches, merge, table."""
        self._listen_for_signals()
        plan_id = f"local-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
        plan = await asyncio.to_thread(make_plan, self._settings, self._store, self._source, plan_id)
        with reporter_for(self._console) as shown:
            reporter = DiscardWatch(shown, self._stop)
            reporter.note(f"{self._settings.run_name}: {self._settings.spec.model.name}, results in {self._folder}/")
            reporter.planned(plan.plan.counts, len(plan.plan.batches))
            if plan.plan.batches:
                reporter.note(self._note)
                await self._batches(plan, reporter)
        with tempfile.TemporaryDirectory(dir=self._store.scratch) as workdir:
            merged = await asyncio.to_thread(merge, self._settings, self._store, plan_id, Path(workdir))
        self._show(merged)
        if self._blocked:
            sys.stderr.write(f"{self._blocked}\n")
            return ExitCode.BAD_INPUT
        return self._exit_code(merged.result)

    async def _batches(self, plan: PlanOutcome, reporter: DiscardWatch) -> None:
        # Loading the model client takes longer than a small plan: it is not loaded where nothing is left to run.
        from batchrun_runner.model.client import ModelClient  # noqa: PLC0415

        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._backend.close)
            settings = self._settings
            if self._is_demo:
                demo = await stack.enter_async_context(DemoModel())
                model = settings.spec.model.model_copy(update={"base_url": demo.base_url})
                settings = replace(settings, spec=settings.spec.model_copy(update={"model": model}))
            tell = _teller(reporter)
            client = await stack.enter_async_context(ModelClient.from_settings(settings, tell))
            agent = Agent.from_settings(client, settings)
            engine = Engine(self._settings, self._store, agent, self._backend, reporter, self._stop)
            try:
                await engine.run(plan)
            except StopRun as error:
                self._blocked = what_to_mend(error, settings)
                self._stop.now(str(error.reason))
            if self._stop.is_asked and not self._blocked:
                reporter.note(f"stopped: {self._stop.why}. What is finished is stored; the same command goes on.")

    def _listen_for_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop.now, signal.Signals(number).name)

    def _show(self, merged: Merged) -> None:
        self._console.print(render_table(merged.statistics))
        for name in ("trajectories.jsonl", "statistics.json", "checkpoint.json"):
            self._console.print(f"  {self._folder / name}", highlight=False, soft_wrap=True)

    def _exit_code(self, result: MergeResult) -> int:
        if self._stop.why in {"SIGINT", "SIGTERM"}:
            return INTERRUPTED
        return ExitCode.SOME_FAILED if result.failed or result.not_run else ExitCode.DONE
