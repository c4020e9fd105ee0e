"""Planning 100,000 prompts: a first run and a resume with 99,000 done, on the folder store and on a real S3 server."""

import secrets
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.contract.storage.server import running

from batchrun_runner.ledger.recorder import INDEX_EVERY_BATCHES
from bench.large_run import BATCH_SIZE, PROMPTS, fill, plan_first, write_data_set
from bench.measured import Measured, measure
from bench.step import FOLDER, open_store

DONE = 99_000
_ROW_BYTES = 6_000
"""Planning reads no row, so small ones will do."""
_SINCE_INDEX = DONE // BATCH_SIZE % INDEX_EVERY_BATCHES
"""Batches that ended since a long run last renewed its index of ledgers."""


def compare(folder: Path) -> Iterator[str]:
    """Lines with the figures."""
    data_set = folder / "prompts.jsonl"
    write_data_set(data_set)
    yield from _on("folder", lambda name: f"{FOLDER}:{folder / name}", data_set)
    try:
        with tempfile.TemporaryDirectory() as place, running(Path(place)) as server:
            yield from _on("S3", lambda _: f"{server.url}/{server.new_bucket()}", data_set)
    except pytest.skip.Exception as why:
        yield f"plan on S3: {why}"


def _on(kind: str, new_place: Callable[[str], str], data_set: Path) -> Iterator[str]:
    """`new_place`: the address of an empty place by its name."""
    yield f"plan on {kind}, {PROMPTS:,} prompts, first run: {_plan(new_place('first'), data_set)}"
    address = new_place("resume")
    store = open_store(address)
    outcome = plan_first(store, data_set)
    batches = outcome.plan.batches[: DONE // BATCH_SIZE]
    fill(store, outcome, batches, _ROW_BYTES)
    yield f"plan on {kind}, resume with {DONE:,} done, the index of ledgers lost: {_plan(address, data_set)}"
    # Other rows, so that the index of that plan is out of date for them.
    fill(store, outcome, batches[-_SINCE_INDEX:], _ROW_BYTES + 1_000)
    yield f"plan on {kind}, resume with {DONE:,} done, as a killed run leaves it: {_plan(address, data_set)}"


def _plan(address: str, data_set: Path) -> Measured:
    plan_id = f"p{secrets.token_hex(4)}"
    return measure([sys.executable, "-m", "bench.step", "plan", address, str(data_set), plan_id])
