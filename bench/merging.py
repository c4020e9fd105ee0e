"""The merge of many rows on the folder store, beside the reference's merge and `cat` of the same files."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from batchrun_runner.ledger.layout import LEDGER_INDEX
from batchrun_runner.storage.folder import FolderStore
from bench.large_run import PLAN, PROMPTS, fill_as_run, plan_first, write_data_set
from bench.measured import Measured, measure, median
from bench.step import FOLDER

ROW_BYTES = 20_000
_SAMPLES = 5
_CAT = 'cat "$1"/batch_*.jsonl > "$2"'


def compare(folder: Path) -> Iterator[str]:
    """Lines with the figures. Each one is the median of its samples, taken in turns."""
    run = folder / "merge"
    store = FolderStore(run, survives_power_cut=False)
    write_data_set(folder / "prompts.jsonl")
    outcome = plan_first(store, folder / "prompts.jsonl")
    fill_as_run(store, outcome, ROW_BYTES)
    index = store.get(LEDGER_INDEX).body
    scratch, out = store.scratch, folder / "other.jsonl"
    commands = {
        "batchrun": [sys.executable, "-m", "bench.step", "merge", f"{FOLDER}:{run}", PLAN, str(scratch)],
        "reference": [sys.executable, "-m", "bench.reference_merge", str(run), str(out)],
        # The list of files is longer than a command line of some systems: the shell's own loop would be slower.
        "cat": ["sh", "-c", _CAT, "sh", str(run), str(out)],
    }
    samples: dict[str, list[Measured]] = {name: [] for name in commands}
    size = 0.0
    for _ in range(_SAMPLES):
        for name, command in commands.items():
            # All write a new file: to replace a large one takes the file system a while, whoever does it.
            for old in (out, run / "trajectories.jsonl"):
                old.unlink(missing_ok=True)
            store.put(LEDGER_INDEX, index)
            samples[name].append(measure(command))
            size = max(size, (run / "trajectories.jsonl").stat().st_size / 1e6 if name == "batchrun" else 0)
    ours, theirs, floor = (median(samples[name]) for name in commands)
    yield f"merge, {PROMPTS:,} rows, {size:,.0f} MB: {ours}"
    slower, over_floor = theirs.wall_seconds / ours.wall_seconds, ours.wall_seconds / floor.wall_seconds
    yield f"  the reference's merge of the same files: {theirs}; {slower:.1f} times ours"
    yield f"  cat of the same files, the floor: {floor}; ours is {over_floor:.1f} times that"
    shutil.rmtree(run)
