"""`checkpoint.json`: the reference's keys, lost races, damage, and stores that ignore conditions."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest
from tests.unit.data.support import CarelessStore, Run, answered, failed

from batchrun_api.outcomes import Outcome
from batchrun_runner.ledger.checkpoint import add_batch
from batchrun_runner.ledger.entry import LedgerEntry
from batchrun_runner.storage.folder import FolderStore

SIX = [f"prompt {number}" for number in range(6)]


def test_it_has_the_keys_of_the_reference_after_every_batch(run: Run) -> None:
    run.agent = lambda row: failed(row) if row.index == 1 else answered(row, reasoning=row.index != 2)
    outcome = run.plan(SIX)
    run.work(outcome, outcome.plan.batches[0])
    checkpoint = run.json("checkpoint.json")
    assert checkpoint["run_name"] == "first_run"
    assert checkpoint["completed_prompts"] == [0, 2]
    assert checkpoint["batch_stats"]["0"]["processed"] == 3
    assert checkpoint["batch_stats"]["0"]["discarded_no_reasoning"] == 1
    assert checkpoint["batch_stats"]["0"]["failed"] == 1
    assert datetime.fromisoformat(checkpoint["last_updated"]).tzinfo is not None


def test_two_batches_that_end_in_the_same_moment_are_both_in_it(run: Run) -> None:
    outcome = run.plan(SIX)
    recorders = [run.work(outcome, batch, finish=False) for batch in outcome.plan.batches]
    barrier = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda recorder: (barrier.wait(), recorder.finish()), recorders))
    checkpoint = run.json("checkpoint.json")
    assert checkpoint["completed_prompts"] == list(range(6))
    assert set(checkpoint["batch_stats"]) == {"0", "1"}
    assert run.merge(outcome).result.completed == 6


def test_two_batches_on_a_store_without_conditions_are_both_in_it(run: Run, folder: FolderStore) -> None:
    run.store = CarelessStore(folder)
    outcome = run.plan(SIX)
    recorders = [run.work(outcome, batch, finish=False) for batch in outcome.plan.batches]
    barrier = threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda recorder: (barrier.wait(), recorder.finish()), recorders))
    assert run.json("checkpoint.json")["completed_prompts"] == list(range(6))
    assert run.merge(outcome).result.completed == 6


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"run_name":"x"}', b'{"completed_prompts":"all","batch_stats":3}']
)
def test_g04_a_damaged_checkpoint_is_made_again_from_what_is_stored(run: Run, damage: bytes) -> None:
    outcome = run.plan(SIX)
    run.work(outcome, outcome.plan.batches[0])
    run.store.put("checkpoint.json", damage)
    run.work(outcome, outcome.plan.batches[1])
    checkpoint = run.json("checkpoint.json")
    assert checkpoint["completed_prompts"] == list(range(6))
    assert set(checkpoint["batch_stats"]) == {"0", "1"}


def test_g04_numbers_that_are_listed_twice_count_once(folder: FolderStore, run: Run) -> None:
    folder.put("checkpoint.json", b'{"run_name":"r","completed_prompts":[1,1,0],"batch_stats":{},"last_updated":null}')
    add_batch(folder, "r", 0, [LedgerEntry(key="k", outcome=Outcome.COMPLETED, prompt_index=0)])
    assert run.json("checkpoint.json")["completed_prompts"] == [0, 1]


def test_a_resume_renumbers_it_after_the_data_set(run: Run) -> None:
    run.run(SIX)
    run.plan(list(reversed(SIX[:4])))
    assert run.json("checkpoint.json")["completed_prompts"] == [0, 1, 2, 3]
    run.plan(["new", *SIX])
    assert run.json("checkpoint.json")["completed_prompts"] == [1, 2, 3, 4, 5, 6]


def test_whoever_never_wins_gives_up_without_harm(folder: FolderStore, run: Run) -> None:
    class Busy(FolderStore):
        def put(
            self,
            key: str,
            body: bytes,
            *,
            if_match: str | None = None,
            if_none_match: bool = False,
            durable: bool = True,
        ) -> str:
            if key == "checkpoint.json":
                folder.put(key, b'{"run_name":"r","completed_prompts":[],"batch_stats":{}}')
            return super().put(key, body, if_match=if_match, if_none_match=if_none_match, durable=durable)

    waits: list[float] = []
    busy = Busy(run.workdir.parent / "first_run", survives_power_cut=False)
    entry = LedgerEntry(key="k", outcome=Outcome.COMPLETED, prompt_index=0)
    assert not add_batch(busy, "r", 0, [entry], pause=waits.append)
    assert max(waits) <= 1.0
