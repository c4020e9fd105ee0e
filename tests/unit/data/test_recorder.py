"""What a batch writes while it works, and that no death at any write and no second writer loses or doubles anything."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from tests.unit.data.support import (
    CarelessStore,
    DyingStore,
    HookedStore,
    Killed,
    Run,
    answered,
    batch_rows,
    failed,
    record,
    strict_json,
)

from batchrun_api.outcomes import Outcome
from batchrun_api.spec.run import Filters
from batchrun_runner.ledger.compaction import compact, compact_left_overs
from batchrun_runner.ledger.files import decode_ledger
from batchrun_runner.ledger.recorder import BatchRecorder, BatchTotals
from batchrun_runner.records import PromptRow
from batchrun_runner.storage.folder import FolderStore
from batchrun_runner.storage.store import ObjectStore

THREE = ["prompt 0", "prompt 1", "prompt 2"]


def prompt(index: int) -> PromptRow:
    return PromptRow(index=index, key=f"{index:024x}-0-0", prompt=f"prompt {index}")


def recorder_on(store: ObjectStore, writer: str, filters: Filters | None = None) -> BatchRecorder:
    return BatchRecorder(
        store,
        batch=0,
        writer=writer,
        run_name="first_run",
        config_digest="d",
        filters=filters or Filters(),
        clock=lambda: 2000.0,
    )


def stored_prompts(store: ObjectStore) -> list[int]:
    return [strict_json(line)["prompt_index"] for line in store.get("batch_0.jsonl").body.split(b"\n")[:-1]]


def ledger_fits(store: ObjectStore) -> bool:
    """Every entry points at its own row."""
    body = store.get("batch_0.jsonl").body
    ledger = decode_ledger(store.get("ledger/batch_0.jsonl").body)
    for entry in ledger.entries():
        row = strict_json(body[entry.offset : entry.offset + entry.length])
        if (row["key"], row["prompt_index"]) != (entry.key, entry.prompt_index):
            return False
    return ledger.head.size_bytes == len(body)


def test_a_finished_prompt_is_durable_at_once_with_its_entry(folder: FolderStore) -> None:
    recorder = recorder_on(folder, "w1")
    recorder.mark_started(prompt(0))
    record(recorder, prompt(0), answered(prompt(0)), 0, "d")
    (part,) = [item.key for item in folder.listing("parts/") if not item.key.endswith(".started")]
    entry, row = folder.get(part).body.split(b"\n")[:2]
    assert strict_json(entry)["outcome"] == "completed"
    assert strict_json(row)["key"] == prompt(0).key
    assert set(recorder_on(folder, "w2").ends()) == {prompt(0).key}


def test_starts_count_over_processes_until_the_prompt_ends(folder: FolderStore) -> None:
    for number in range(3):
        recorder = recorder_on(folder, f"w{number}")
        assert recorder.starts(prompt(0).key) == number
        recorder.mark_started(prompt(0))
    assert recorder.starts(prompt(0).key) == 3
    record(recorder, prompt(0), failed(prompt(0)), 0, "d")
    assert recorder.starts(prompt(0).key) == 0
    assert recorder_on(folder, "w9").starts(prompt(0).key) == 0
    recorder.finish()
    (entry,) = decode_ledger(folder.get("ledger/batch_0.jsonl").body).entries()
    assert entry.attempts == 3


def test_a_prompt_that_was_interrupted_from_outside_leaves_no_mark(folder: FolderStore) -> None:
    recorder = recorder_on(folder, "w1")
    recorder.mark_started(prompt(0))
    record(recorder, prompt(0), replace(answered(prompt(0)), outcome=Outcome.INTERRUPTED), 0, "d")
    assert list(folder.listing("parts/")) == []
    assert recorder.starts(prompt(0).key) == 0
    assert recorder.ends() == {}


def test_finish_writes_rows_in_order_with_a_ledger_that_fits_and_cleans_up(folder: FolderStore) -> None:
    recorder = recorder_on(folder, "w1")
    for index in (2, 0, 1):
        recorder.mark_started(prompt(index))
        record(recorder, prompt(index), answered(prompt(index)), 0, "d")
    assert recorder.finish() == BatchTotals(completed=3)
    assert stored_prompts(folder) == [0, 1, 2]
    assert ledger_fits(folder)
    assert list(folder.listing("parts/")) == []
    etag = folder.head("batch_0.jsonl")
    assert recorder.finish() == BatchTotals(completed=3)
    assert folder.head("batch_0.jsonl") == etag


def test_finish_with_work_left_keeps_the_marks_of_what_is_left(folder: FolderStore) -> None:
    recorder = recorder_on(folder, "w1")
    recorder.mark_started(prompt(0))
    recorder.mark_started(prompt(1))
    record(recorder, prompt(0), answered(prompt(0)), 0, "d")
    recorder.finish()
    after = recorder_on(folder, "w2")
    assert after.ends() == {prompt(0).key: (Outcome.COMPLETED, None)}
    assert after.starts(prompt(1).key) == 1
    record(after, prompt(1), answered(prompt(1)), 0, "d")
    after.finish()
    assert stored_prompts(folder) == [0, 1]
    assert strict_json(folder.get("checkpoint.json").body)["batch_stats"]["0"] == {
        "processed": 1,
        "skipped": 1,
        "discarded_no_reasoning": 0,
        "completed": 2,
        "truncated": 0,
        "discarded": 0,
        "failed": 0,
    }


def test_several_threads_record_at_once(folder: FolderStore) -> None:
    recorder = recorder_on(folder, "w1")

    def work(index: int) -> None:
        recorder.mark_started(prompt(index))
        record(recorder, prompt(index), answered(prompt(index)), 0, "d")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(20)))
    assert recorder.finish().completed == 20
    assert stored_prompts(folder) == list(range(20))


def test_filters_act_on_the_row_and_the_original_end_is_kept(folder: FolderStore) -> None:
    recorder = recorder_on(folder, "w1")
    record(recorder, prompt(0), answered(prompt(0), reasoning=False), 0, "d")
    assert recorder.finish() == BatchTotals(discarded=1)
    (entry,) = decode_ledger(folder.get("ledger/batch_0.jsonl").body).entries()
    assert (entry.outcome, entry.reason) == (Outcome.DISCARDED, "NoReasoning")
    assert entry.unfiltered_outcome is Outcome.COMPLETED
    assert strict_json(folder.get("batch_0.jsonl").body)["outcome"] == "discarded"


def test_reasoning_tokens_alone_are_reasoning(folder: FolderStore) -> None:
    recorder = recorder_on(folder, "w1")
    result = answered(prompt(0), reasoning=False)
    record(recorder, prompt(0), replace(result, usage=replace(result.usage, reasoning_tokens=7)), 0, "d")
    assert recorder.finish() == BatchTotals(completed=1)


def test_done_stands_before_failed_and_the_first_before_the_second(folder: FolderStore) -> None:
    first, second = recorder_on(folder, "w1"), recorder_on(folder, "w2")
    record(first, prompt(0), failed(prompt(0)), 0, "d")
    record(second, prompt(0), answered(prompt(0)), 0, "d")
    record(first, prompt(1), replace(answered(prompt(1)), message="first"), 0, "d")
    record(second, prompt(1), replace(answered(prompt(1)), message="second"), 0, "d")
    assert first.finish() == BatchTotals(completed=2)
    rows = [strict_json(line) for line in folder.get("batch_0.jsonl").body.split(b"\n")[:-1]]
    assert [(row["outcome"], row["message"]) for row in rows] == [("completed", ""), ("completed", "first")]


def test_a_late_writer_adds_what_is_new_and_cannot_destroy_anything(folder: FolderStore) -> None:
    stale, living = recorder_on(folder, "old"), recorder_on(folder, "new")
    record(living, prompt(0), answered(prompt(0)), 0, "d")
    record(living, prompt(1), failed(prompt(1)), 0, "d")
    living.finish()
    before = folder.get("batch_0.jsonl").body
    record(stale, prompt(0), answered(prompt(0)), 0, "d")
    assert compact_left_overs(folder) == 1
    assert folder.get("batch_0.jsonl").body == before, "a double changes nothing"
    record(stale, prompt(1), answered(prompt(1)), 0, "d")
    record(stale, prompt(2), answered(prompt(2)), 0, "d")
    stale.finish()
    assert stored_prompts(folder) == [0, 1, 2]
    assert ledger_fits(folder)
    assert list(folder.listing("parts/")) == []


def test_a_damaged_part_is_no_result_and_stays_to_be_looked_at(folder: FolderStore) -> None:
    recorder = recorder_on(folder, "w1")
    for index in range(3):
        record(recorder, prompt(index), answered(prompt(index)), 0, "d")
    key = f"parts/batch_0/{prompt(1).key}.w1"
    folder.put(key, folder.get(key).body[:-30])
    assert recorder.finish() == BatchTotals(completed=2)
    assert [item.key for item in folder.listing("parts/")] == [key]
    assert prompt(1).key not in recorder_on(folder, "w2").ends()


def test_g04_e06_killed_at_any_write_nothing_is_lost_doubled_or_half(folder: FolderStore, run: Run) -> None:
    """Kill a batch at its n-th change of the store, for every n; go on; the end is always the same."""
    deaths = 0
    while True:
        root = FolderStore(run.workdir.parent / f"run-{deaths}", survives_power_cut=False)
        case = Run(DyingStore(root, deaths), run.workdir)
        try:
            outcome = Run(root, run.workdir).plan(THREE, plan_id="p")
            case.work(outcome, outcome.plan.batches[0])
            survived = True
        except Killed:
            survived = False
        case.store = root
        done = {key.split("/")[2].split(".")[0] for key in case.keys("parts/") if not key.endswith(".started")}
        case.work(outcome, outcome.plan.batches[0])
        assert stored_prompts(root) == [0, 1, 2]
        assert ledger_fits(root)
        assert case.keys("parts/") == []
        assert case.json("checkpoint.json")["completed_prompts"] == [0, 1, 2]
        assert case.merge(outcome).result.completed == 3
        rows = {row.prompt: row.key for row in batch_rows(root, "p", outcome.plan.batches[0])}
        repeated = [text for text in THREE if case.asked.count(text) > 1]
        assert not [text for text in repeated if rows[text] in done], "no call is repeated for a stored prompt"
        assert len(repeated) <= 1
        if survived:
            break
        deaths += 1
    assert deaths >= 10


def test_two_compactions_at_once_end_with_everything(folder: FolderStore) -> None:
    one, other = recorder_on(folder, "w1"), recorder_on(folder, "w2")
    for index in range(5):
        record(one, prompt(index), answered(prompt(index)), 0, "d")
        record(other, prompt(index + 5), answered(prompt(index + 5)), 0, "d")
    barrier = threading.Barrier(2)

    def finish(recorder: BatchRecorder) -> BatchTotals:
        barrier.wait()
        return recorder.finish()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(finish, [one, other]))
    assert compact(folder, 0)
    assert stored_prompts(folder) == list(range(10))
    assert ledger_fits(folder)
    assert list(folder.listing("parts/")) == []


@pytest.mark.parametrize(
    ("key", "careless"),
    [
        ("batch_0.jsonl", False),
        ("ledger/batch_0.jsonl", False),
        (f"parts/batch_0/{prompt(0).key}.w1", False),
        ("batch_0.jsonl", True),
        ("ledger/batch_0.jsonl", True),
    ],
)
def test_e07_a_faster_compaction_at_the_worst_moment_loses_nothing(
    folder: FolderStore, key: str, careless: bool
) -> None:
    """Another process compacts, with one prompt more, just before we write or delete."""
    record(recorder_on(folder, "w1"), prompt(0), answered(prompt(0)), 0, "d")
    plain: ObjectStore = CarelessStore(folder) if careless else folder

    def other() -> None:
        record(recorder_on(plain, "w2"), prompt(1), answered(prompt(1)), 0, "d")
        compact(plain, 0)

    hooked = (_CarelessHook if careless else HookedStore)(folder, key, other)
    compact(hooked, 0)
    assert hooked.is_used
    compact(plain, 0)
    assert stored_prompts(folder) == [0, 1]
    assert ledger_fits(folder)


class _CarelessHook(HookedStore):
    def put(
        self, key: str, body: bytes, *, if_match: str | None = None, if_none_match: bool = False, durable: bool = True
    ) -> str:
        return super().put(key, body)

    def honours_conditions(self) -> bool:
        return False


def test_on_a_store_without_conditions_parts_stay_and_are_read_once(folder: FolderStore) -> None:
    store = CarelessStore(folder)
    recorder = recorder_on(store, "w1")
    for index in range(3):
        record(recorder, prompt(index), answered(prompt(index)), 0, "d")
    assert recorder.finish() == BatchTotals(completed=3)
    assert len(list(store.listing("parts/"))) == 3
    etag = folder.head("batch_0.jsonl")
    compact_left_overs(store)
    assert folder.head("batch_0.jsonl") == etag


def test_now_and_then_a_batch_renews_the_index_so_that_a_resume_reads_few_ledgers(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("batchrun_runner.ledger.recorder.INDEX_EVERY_BATCHES", 2)
    run.spec = {"batchSize": 1}
    outcome = run.plan([f"prompt {number}" for number in range(5)])
    for batch in outcome.plan.batches:
        run.work(outcome, batch)
    heads = [line for line in run.rows("ledger/index.jsonl") if "entries" in line]
    assert [head.get("batch", 0) for head in heads] == [0, 1, 2, 3]
    assert run.plan([f"prompt {number}" for number in range(5)]).plan.counts.done == 5


def test_a_row_that_is_not_one_line_of_our_form_is_refused(folder: FolderStore) -> None:
    recorder = recorder_on(folder, "w1")
    for line in (b'{"outcome":"completed"}\n', b'{"prompt_index":0}\n{"prompt_index":1}\n', b""):
        with pytest.raises(ValueError, match="one line that starts with its prompt_index"):
            recorder.record(prompt(0), answered(prompt(0)), line)
    assert recorder.ends() == {}
