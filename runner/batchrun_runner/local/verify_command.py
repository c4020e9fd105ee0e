"""`batchrun verify`: stored rows judged again from their artifacts. Exit codes as those of `batchrun local`."""

import asyncio
import signal
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from batchrun_api.exit_codes import ExitCode
from batchrun_api.spec import BatchRunSpec
from batchrun_api.text import counted
from batchrun_runner.dataset.errors import DatasetError, DatasetInvalid
from batchrun_runner.dataset.own_settings import RowBounds
from batchrun_runner.dataset.rows import InvalidRow
from batchrun_runner.dataset.sources import Source
from batchrun_runner.documents import InvalidFile, load_run
from batchrun_runner.ledger import layout
from batchrun_runner.local.backends import backend_for
from batchrun_runner.local.complaints import complain
from batchrun_runner.local.inputs import BadInput, is_embedded_demo, source_for
from batchrun_runner.local.lock import folder_lock
from batchrun_runner.local.regrading import Case, Judge, Verdict, cases
from batchrun_runner.records import PromptRow
from batchrun_runner.sandbox.backend import SandboxBackend
from batchrun_runner.sandbox.errors import HelperMissing
from batchrun_runner.sandbox.workspace import remove_left_overs
from batchrun_runner.storage.errors import StorageError
from batchrun_runner.storage.folder import FolderStore
from batchrun_runner.storage.s3 import run_store
from batchrun_runner.storage.store import ObjectStore
from batchrun_runner.text import one_line

_SHOWN = 20
_SHOWN_CHARS = 300
_DEFAULT_OUTPUT = Path("data")


def run_verify(file: Path, output: Path | None, sandbox_mode: str | None) -> int:
    """Judge again what the run of this file has stored. Returns the exit code."""
    try:
        run_file = load_run(file, for_cluster=False)
        spec, name = run_file.run.spec, run_file.run.run_name
        source = source_for(file, run_file)
        backend, note = backend_for(sandbox_mode, spec, is_demo=is_embedded_demo(run_file))
        with ExitStack() as stack:
            store = _store(spec, name, output, stack)
            remove_left_overs()
            wanted = cases(store, _rows(spec, source))
            if not wanted:
                raise BadInput(f"{source.place}: no row has `verify`, so there is nothing to judge")
            sys.stdout.write(f"{name}: {counted(len(wanted), 'row')} with a verifier in {store.place}; {note}\n")
            verdicts = asyncio.run(_judged(spec, store, backend, wanted))
            _write(store, name, verdicts)
            return _tell(store, verdicts)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except (InvalidFile, BadInput, DatasetError, HelperMissing, StorageError) as error:
        complain(str(error))
    except OSError as error:
        complain(f"{error.filename or file}: {error.strerror or error}")
    return ExitCode.BAD_INPUT


def _store(spec: BatchRunSpec, name: str, output: Path | None, stack: ExitStack) -> ObjectStore:
    """The bucket that the file names, or a folder, which is then this process's alone."""
    location = spec.output.s3 if spec.output and output is None else None
    if location is not None:
        return run_store(location, name)
    folder = (output or _DEFAULT_OUTPUT) / name
    if not folder.is_dir():
        raise BadInput(f"{folder}: there are no results; run `batchrun local` first, or name the folder by --output")
    stack.enter_context(folder_lock(folder))
    return FolderStore(folder)


def _rows(spec: BatchRunSpec, source: Source) -> Iterator[PromptRow]:
    total = 0
    for row in source.rows(RowBounds.of(spec)):
        if isinstance(row, InvalidRow):
            if spec.dataset.on_invalid_row == "Fail":
                raise DatasetInvalid(f"{source.place}: {row}; set dataset.onInvalidRow: Skip to judge the others")
            continue
        yield row
        total += 1
        if total == spec.max_samples:
            return


async def _judged(spec: BatchRunSpec, store: ObjectStore, backend: SandboxBackend, wanted: list[Case]) -> list[Verdict]:
    """In the order of the cases, `numWorkers` at a time."""
    judge = Judge(spec, store, backend)
    queue = iter(enumerate(wanted))
    verdicts: dict[int, Verdict] = {}

    async def worker() -> None:
        for index, case in queue:
            verdicts[index] = await judge.judge(index, case)

    async with AsyncExitStack() as stack:
        stack.push_async_callback(backend.close)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(spec.num_workers, len(wanted))):
                    group.create_task(worker())
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
    return [verdicts[index] for index in range(len(wanted))]


def _write(store: ObjectStore, name: str, verdicts: list[Verdict]) -> None:
    """New objects; what the run has written is never touched."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "verified.jsonl")
        with path.open("wb") as file:
            file.writelines(orjson.dumps(_line(item), option=orjson.OPT_APPEND_NEWLINE) for item in verdicts)
        store.upload(path, layout.VERIFIED, consume=True)
    figures = {"run_name": name, "verified_at": datetime.now(UTC).isoformat(timespec="microseconds")}
    body = orjson.dumps(figures | _figures(verdicts), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    store.put(layout.VERIFIED_STATISTICS, body)


def _line(item: Verdict) -> dict[str, Any]:
    case, found = item.case, item.verification
    return {
        "prompt_index": case.row.index,
        "key": case.key,
        "id": case.row.id,
        "judged": found.reward is not None,
        "why_not": item.why_not,
        "reward": found.reward,
        "reward_before": case.reward_before,
        "verification": {
            "ran": found.ran,
            "exit_code": found.exit_code,
            "timed_out": found.timed_out,
            "output": found.output,
        },
    }


def _figures(verdicts: list[Verdict]) -> dict[str, Any]:
    rewards = [item.verification.reward for item in verdicts if item.verification.reward is not None]
    changed = sum(
        item.verification.reward is not None and item.verification.reward != item.case.reward_before
        for item in verdicts
    )
    return {
        "rows": len(verdicts),
        "judged": len(rewards),
        "not_judged": len(verdicts) - len(rewards),
        "changed": changed,
        "reward": {"count": len(rewards), "mean": round(statistics.fmean(rewards), 6) if rewards else None},
    }


def _tell(store: ObjectStore, verdicts: list[Verdict]) -> int:
    figures = _figures(verdicts)
    mean = figures["reward"]["mean"]
    sys.stdout.write(
        f"{figures['judged']} of {counted(len(verdicts), 'row')} judged, {figures['changed']} with another reward"
        + ("" if mean is None else f", mean reward {mean}")
        + f"\n  {store.place}/{layout.VERIFIED}\n  {store.place}/{layout.VERIFIED_STATISTICS}\n"
    )
    missing = [item for item in verdicts if item.verification.reward is None]
    for item in missing[:_SHOWN]:
        name = f"prompt {item.case.row.index}" + (f" ({one_line(item.case.row.id, 60)})" if item.case.row.id else "")
        complain(f"{name}: not judged: {one_line(item.why_not, _SHOWN_CHARS)}")
    if len(missing) > _SHOWN:
        complain(f"and {len(missing) - _SHOWN:,} more, see {store.place}/{layout.VERIFIED}")
    return ExitCode.SOME_FAILED if missing else ExitCode.DONE
