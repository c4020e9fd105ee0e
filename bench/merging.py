"""The merge of many rows on the folder store, beside `cat` of the same files."""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from batchrun_api.outcomes import Outcome
from batchrun_api.spec import BatchRunSpec
from batchrun_runner.agent.trajectory import to_row
from batchrun_runner.dataset.sources import text_source
from batchrun_runner.ledger.recorder import BatchRecorder
from batchrun_runner.merge.merger import merge
from batchrun_runner.plan import PlanOutcome, make_plan, read_batch_rows
from batchrun_runner.records import PromptResult
from batchrun_runner.settings import RunSettings
from batchrun_runner.storage.folder import FolderStore
from bench.measured import measure

ROWS = 5_000
ROW_BYTES = 20_000
PLAN = "bench"


def compare(folder: Path) -> Iterator[str]:
    """Lines with the figures."""
    store = FolderStore(folder / "merge", survives_power_cut=False)
    spec = BatchRunSpec.model_validate({"dataset": {"inline": "-"}, "batchSize": 100})
    settings = RunSettings(spec=spec, run_name="merge")
    start = time.perf_counter()
    prompts = text_source("".join(f'{{"prompt": "prompt {number}"}}\n' for number in range(ROWS)))
    outcome = make_plan(settings, store, prompts, PLAN)
    planned = time.perf_counter() - start
    _fill(settings, store, outcome)
    start = time.perf_counter()
    merge(settings, store, PLAN, store.scratch)
    ours = time.perf_counter() - start
    files = [str(path) for path in (folder / "merge").glob("batch_*.jsonl")]
    floor = measure(["sh", "-c", 'out=$1; shift; cat "$@" > "$out"', "sh", str(folder / "cat"), *files]).wall_seconds
    size = (folder / "merge" / "trajectories.jsonl").stat().st_size / 1e6
    yield f"plan, {ROWS} prompts: {planned:.2f} s"
    yield f"merge, {ROWS} rows, {size:.0f} MB: {ours:.2f} s, {size / ours:.0f} MB/s"
    yield f"  cat of the same files: {floor:.2f} s; ratio {ours / floor:.1f}"
    shutil.rmtree(folder / "merge")


def _fill(settings: RunSettings, store: FolderStore, outcome: PlanOutcome) -> None:
    filler = "x" * ROW_BYTES
    for batch in outcome.plan.batches:
        recorder = BatchRecorder(
            store,
            batch=batch.number,
            writer="bench",
            run_name="merge",
            config_digest=outcome.config_digest,
            filters=settings.spec.filters,
        )
        for row in read_batch_rows(store, PLAN, number=batch.number, offset=batch.offset, length=batch.length):
            turns = [
                {"from": "human", "value": row.prompt, "tool_calls": []},
                {"from": "gpt", "value": filler, "tool_calls": []},
            ]
            result = PromptResult(Outcome.COMPLETED, conversations=turns, assistant_turns=1, turns_with_reasoning=1)
            line = to_row(
                row,
                result,
                batch_number=batch.number,
                timestamp="2026-01-01T00:00:00.000000+00:00",
                model="bench",
                config_digest=outcome.config_digest,
            )
            recorder.record(row, result, line)
        recorder.finish()
