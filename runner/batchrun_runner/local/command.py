"""The verb: inputs, plan, batches, merge, table. Exit codes 0, 1, 2 as the README says; 130 after an interrupt."""

import asyncio
import os
import secrets
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from batchrun_api.exit_codes import ExitCode
from batchrun_api.messages import MergeResult
from batchrun_api.text import counted
from batchrun_runner.agent.loop import Agent
from batchrun_runner.dataset.errors import DatasetError
from batchrun_runner.dataset.sources import Source
from batchrun_runner.documents import InvalidFile, load_run
from batchrun_runner.ledger import layout
from batchrun_runner.ledger.ownership import PlanRefused
from batchrun_runner.local.backends import backend_for, ignored_by
from batchrun_runner.local.browser import BrowserProcess
from batchrun_runner.local.complaints import complain
from batchrun_runner.local.engine import DiscardWatch, Engine
from batchrun_runner.local.inputs import BadInput, is_embedded_demo, settings_of, source_for
from batchrun_runner.local.lock import folder_lock
from batchrun_runner.local.mending import what_to_mend
from batchrun_runner.merge.errors import MergeFailed
from batchrun_runner.merge.merger import Merged, merge
from batchrun_runner.merge.table import render_table
from batchrun_runner.model.errors import StopRun
from batchrun_runner.model.gate import Standstill
from batchrun_runner.plan import PlanOutcome, make_plan
from batchrun_runner.progress import Reporter, reporter_for
from batchrun_runner.sandbox.backend import SandboxBackend
from batchrun_runner.sandbox.errors import HelperMissing
from batchrun_runner.sandbox.workspace import remove_left_overs
from batchrun_runner.settings import RunSettings
from batchrun_runner.standard_output import GuardedOutput
from batchrun_runner.stopping import Stop
from batchrun_runner.storage.errors import InTheWay, StorageError, StorageFull
from batchrun_runner.storage.folder import FolderStore
from batchrun_runner.storage.os_errors import DISK_FULL
from batchrun_runner.tools.services import open_services

_RUN_AGAIN = "the same command runs these prompts again"
_GOES_ON = "What is finished is stored; the same command goes on."
INTERRUPTED = 128 + signal.SIGINT
"""The shell's convention for a process that SIGINT ended."""


_OWN_OBJECTS = (
    layout.CHECKPOINT,
    layout.TRAJECTORIES,
    layout.DISCARDED,
    layout.REJECTED,
    layout.LEFT_OUT,
    layout.STATISTICS,
    layout.CARD,
    layout.LEDGER_INDEX,
)
_OWN_FOLDERS = (layout.LEDGERS, layout.PARTS, layout.PLANS, layout.CONFIGS, layout.ARTIFACTS, layout.IMAGES)


def run_local(file: Path, output: Path, sandbox_mode: str | None) -> int:
    """Run a BatchRun file on this machine; results go to `output/<runName>/`. Returns the exit code."""
    folder = output
    try:
        run_file = load_run(file, for_cluster=False)
        if run_file.run.spec.suspend:
            _complain(
                f"{file}: spec.suspend is true, so nothing was run; set it to false, and the same command runs it"
            )
            return ExitCode.SOME_FAILED
        settings = settings_of(file, run_file, os.environ)
        source = source_for(file, run_file)
        backend, note = backend_for(sandbox_mode, settings.spec, is_demo=is_embedded_demo(run_file))
        folder = output / settings.run_name
        with folder_lock(folder):
            remove_left_overs()
            with _own_temporary_folder(folder), asyncio.Runner() as runner:
                run = _Run(settings, source, folder, backend, note, is_embedded_demo(run_file))
                return runner.run(run.run())
    except (InvalidFile, BadInput, PlanRefused, DatasetError, HelperMissing) as error:
        _complain(str(error), error)
    except (StorageError, OSError) as error:
        _complain(_what_is_wrong(folder, error), error)
    return ExitCode.BAD_INPUT


def _complain(text: str, error: Exception | None = None) -> None:
    """The code is the one that the condition has on a cluster: what people search for."""
    reason = getattr(error, "reason", "")
    code = f" ({reason})" if reason else ""
    complain(f"{text}{code}")


def _what_is_wrong(folder: Path, error: Exception) -> str:
    """A fault of the folder, or of temporary files, for people; not in words of our own objects."""
    if isinstance(error, StorageFull) or (isinstance(error, OSError) and error.errno in DISK_FULL):
        return f"{folder}: the disk is full; make room there"
    if isinstance(error, OSError):
        return f"{error.filename or folder}: {error.strerror or error}"
    return str(error)


@contextmanager
def _own_temporary_folder(folder: Path) -> Iterator[None]:
    """Temporary files go into the run's folder: a killed run's are found there, and removed under the folder's lock."""
    store, before = FolderStore(folder), tempfile.tempdir
    store.sweep()
    tempfile.tempdir = str(store.scratch)
    try:
        yield
    finally:
        tempfile.tempdir = before


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
        self._output = sys.stdout if isinstance(sys.stdout, GuardedOutput) else GuardedOutput(sys.stdout)

    async def run(self) -> int:
        """Plan, batches, merge, table."""
        self._listen_for_signals()
        self._refuse_foreign_objects()
        plan_id = f"local-{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
        plan = await asyncio.to_thread(make_plan, self._settings, self._store, self._source, plan_id)
        with reporter_for(self._console) as shown:
            reporter = DiscardWatch(shown, self._stop)
            reporter.note(f"{self._settings.run_name}: {self._settings.spec.model.name}, results in {self._folder}/")
            reporter.planned(plan.plan.counts, len(plan.plan.batches))
            for note in plan.plan.notes:
                reporter.note(note)
            try:
                if plan.plan.batches:
                    reporter.note(self._note)
                    if ignored := ignored_by(self._backend, plan.plan):
                        reporter.note(ignored)
                    await self._batches(plan, reporter)
                with tempfile.TemporaryDirectory() as workdir:
                    merged = await asyncio.to_thread(merge, self._settings, self._store, plan_id, Path(workdir))
            except (StorageError, MergeFailed, OSError) as error:
                _complain(f"{_what_is_wrong(self._folder, error)}. {_GOES_ON}")
                return ExitCode.SOME_FAILED
        self._show(merged)
        for name, rows in merged.result.damaged.items():
            _complain(f"{self._folder / name}: {counted(rows, 'row')} damaged and left out; {_RUN_AGAIN}")
        if self._blocked:
            _complain(self._blocked)
            return ExitCode.BAD_INPUT
        return self._exit_code(merged.result)

    def _refuse_foreign_objects(self) -> None:
        """Before anything is paid for. Raises StorageError."""
        for key in _OWN_OBJECTS:
            self._store.head(key)
        for prefix in _OWN_FOLDERS:
            path = self._folder / prefix
            if path.exists() and not path.is_dir():
                raise InTheWay(f"{path} is a file where a folder of this run must lie; move it away")

    async def _batches(self, plan: PlanOutcome, reporter: DiscardWatch) -> None:
        # Loading the model client takes longer than a small plan: it is not loaded where nothing is left to run.
        from batchrun_runner.model.client import ModelClient  # noqa: PLC0415

        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._backend.close)
            settings = self._settings
            if self._is_demo:
                from batchrun_runner.demo_model.server import DemoModel  # noqa: PLC0415

                demo = await stack.enter_async_context(DemoModel())
                model = settings.spec.model.model_copy(update={"base_url": demo.base_url})
                settings = replace(settings, spec=settings.spec.model_copy(update={"model": model}))
            tell = _teller(reporter)
            client = await stack.enter_async_context(ModelClient.from_settings(settings, tell))
            agent = Agent.from_settings(client, settings)
            browser = await stack.enter_async_context(BrowserProcess(settings.spec))
            services = await stack.enter_async_context(open_services(settings, client, self._store, browser.socket))
            engine = Engine(self._settings, self._store, agent, self._backend, reporter, self._stop, services)
            try:
                await engine.run(plan)
            except StopRun as error:
                self._blocked = what_to_mend(error, settings)
                self._stop.now(str(error.reason))
            if self._stop.is_asked and not self._blocked:
                reporter.note(f"stopped: {self._stop.why}. {_GOES_ON}")

    def _listen_for_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop.now, signal.Signals(number).name)

        def lost(error: OSError) -> None:
            # As every program of a pipe, it ends when nobody reads. A full disk below a log is no reason to stop.
            if isinstance(error, BrokenPipeError):
                loop.call_soon_threadsafe(self._stop.now, "nobody reads the output any more")

        self._output.when_lost = lost

    def _show(self, merged: Merged) -> None:
        self._console.print(render_table(merged.statistics))
        for name in ("trajectories.jsonl", "statistics.json", "checkpoint.json"):
            self._console.print(f"  {self._folder / name}", highlight=False, soft_wrap=True)

    def _exit_code(self, result: MergeResult) -> int:
        if self._stop.why in {"SIGINT", "SIGTERM"}:
            return INTERRUPTED
        return ExitCode.SOME_FAILED if result.failed or result.not_run else ExitCode.DONE
