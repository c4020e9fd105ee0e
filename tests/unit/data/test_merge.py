"""The merge: order, filters, orphans, doubles, and counts that add up or stop it."""

import json
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.data.support import (
    CarelessStore,
    DyingStore,
    Killed,
    Run,
    Wrapper,
    answered,
    batch_rows,
    failed,
    record,
    reference_rows,
)

from batchrun_api.outcomes import Outcome, Reason
from batchrun_runner.columns import ROW_FEATURES, row_problems
from batchrun_runner.ledger.entry import ROW_SCHEMA
from batchrun_runner.ledger.errors import PlanBroken
from batchrun_runner.ledger.stored import StoredRun
from batchrun_runner.merge.errors import MergeFailed
from batchrun_runner.merge.selection import select
from batchrun_runner.storage.folder import FolderStore

SEVEN = [f"prompt {number}" for number in range(7)]


def mixed(row: Any) -> Any:
    """One of each end."""
    ends = {
        1: failed(row),
        2: answered(row, reasoning=False),
        3: replace(answered(row), outcome=Outcome.TRUNCATED, reason=Reason.MAX_TURNS),
        4: answered(row, call="made_up_tool"),
        5: replace(answered(row, call="made_up_tool"), outcome=Outcome.FAILED, reason=Reason.TIMEOUT),
    }
    return ends.get(row.index, answered(row))


def test_rows_lie_in_data_set_order_also_with_more_than_ten_batches(run: Run) -> None:
    run.spec = {"batchSize": 1}
    prompts = [f"prompt {number}" for number in range(12)]
    run.run(prompts)
    assert run.prompts() == prompts
    run.run(list(reversed(prompts)))
    assert run.prompts() == list(reversed(prompts))
    assert [row["prompt_index"] for row in run.rows()] == list(range(12))
    assert len(run.asked) == 12


def test_every_end_is_in_its_place_and_the_counts_add_up(run: Run) -> None:
    run.agent = mixed
    result = run.run(SEVEN).result
    assert (result.total, result.completed, result.truncated, result.discarded, result.failed, result.not_run) == (
        7,
        2,
        1,
        2,
        2,
        0,
    )
    assert result.reasons == {"MaxTurns": 1, "NoReasoning": 1, "ProviderError": 1, "Timeout": 1, "UnknownTools": 1}
    assert [(row["prompt_index"], row["outcome"], row["reason"], row["completed"]) for row in run.rows()] == [
        (0, "completed", "", True),
        (1, "failed", "ProviderError", False),
        (3, "truncated", "MaxTurns", False),
        (6, "completed", "", True),
    ]
    assert [(row["prompt_index"], row["outcome"], row["reason"]) for row in run.rows("discarded.jsonl")] == [
        (2, "discarded", "NoReasoning"),
        (4, "discarded", "UnknownTools"),
        (5, "failed", "Timeout"),
    ]
    assert [(row["prompt_index"], row["reason"]) for row in run.rows("left_out.jsonl")] == [
        (2, "NoReasoning"),
        (4, "UnknownTools"),
        (5, "UnknownTools"),
    ]
    assert [(note.prompt_index, note.reason, note.message) for note in result.failures] == [
        (1, "ProviderError", "502 bad gateway"),
        (5, "Timeout", ""),
    ]


def test_g05_a_changed_filter_is_a_merge_and_no_model_call(run: Run) -> None:
    run.agent = mixed
    run.run(SEVEN[:5])
    run.asked.clear()
    run.agent = answered
    run.spec = {"filters": {"requireReasoning": False, "unknownTools": "Keep"}}
    result = run.run(SEVEN[:5]).result
    assert run.asked == ["prompt 1"], "only the failed one"
    assert (result.completed, result.truncated, result.discarded) == (4, 1, 0)
    assert [(row["outcome"], row["reason"], row["completed"]) for row in run.rows()][2] == ("completed", "", True)
    assert all(row_problems(row) == [] for row in run.rows())
    run.spec = {}
    assert run.run(SEVEN[:5]).result.discarded == 2
    assert run.asked == ["prompt 1"]


def test_a_truncated_sample_that_was_discarded_is_truncated_again_without_the_filter(run: Run) -> None:
    run.agent = lambda row: replace(
        answered(row, reasoning=False), outcome=Outcome.TRUNCATED, reason=Reason.TOKEN_LIMIT
    )
    assert run.run(SEVEN[:1]).result.discarded == 1
    run.spec = {"filters": {"requireReasoning": False}}
    run.run(SEVEN[:1])
    (row,) = run.rows()
    assert (row["outcome"], row["reason"], row["completed"]) == ("truncated", "TokenLimit", False)


def test_orphans_are_kept_at_the_end_or_dropped_by_name(run: Run) -> None:
    run.run(SEVEN)
    result = run.run(["new", *SEVEN[2:]]).result
    assert (result.total, result.completed, result.orphaned) == (6, 6, 2)
    assert run.prompts() == ["new", *SEVEN[2:], "prompt 0", "prompt 1"]
    assert [row["prompt_index"] for row in run.rows()][-2:] == [-1, -1]
    run.spec = {"merge": {"orphans": "Drop"}}
    result = run.run(["new", *SEVEN[2:]]).result
    assert result.orphaned == 2
    assert run.prompts() == ["new", *SEVEN[2:]]
    assert [row["reason"] for row in run.rows("left_out.jsonl")] == ["Orphaned", "Orphaned"]


def test_g06_a_run_that_was_killed_before_its_merge_is_merged_by_a_resume_without_a_call(run: Run) -> None:
    outcome = run.plan(SEVEN)
    for batch in outcome.plan.batches:
        run.work(outcome, batch)
    assert run.keys("trajectories") == []
    run.asked.clear()
    run.run(SEVEN)
    assert run.asked == []
    assert run.prompts() == SEVEN


def test_g06_statistics_after_a_resume_are_those_of_an_uninterrupted_run(run: Run) -> None:
    outcome = run.plan(SEVEN)
    run.work(outcome, outcome.plan.batches[1])
    resumed = dict(run.run(SEVEN).statistics.document)
    straight = dict(
        Run(FolderStore(run.workdir.parent / "straight", survives_power_cut=False), run.workdir)
        .run(SEVEN)
        .statistics.document
    )
    assert resumed == straight


def test_a_merge_that_is_repeated_changes_no_byte(run: Run) -> None:
    run.agent = mixed
    outcome = run.plan(SEVEN)
    for batch in outcome.plan.batches:
        run.work(outcome, batch)
    run.merge(outcome)
    before = run.contents()
    run.merge(outcome)
    assert run.contents() == before


def test_e07_a_double_of_another_writer_is_in_the_result_once(run: Run, folder: FolderStore) -> None:
    run.store = CarelessStore(folder)
    outcome = run.plan(SEVEN[:3])
    batch = outcome.plan.batches[0]
    run.work(outcome, batch)
    folder.put("batch_9.jsonl", folder.get("batch_0.jsonl").body)
    result = run.merge(outcome).result
    assert (result.total, result.completed, result.orphaned) == (3, 3, 0)
    assert run.prompts() == SEVEN[:3]
    assert [row["reason"] for row in run.rows("left_out.jsonl")] == ["Double"] * 3


def test_left_over_parts_of_dead_batches_are_in_the_result(run: Run) -> None:
    outcome = run.plan(SEVEN)
    for batch in outcome.plan.batches:
        run.work(outcome, batch, finish=False)
    assert run.merge(outcome).result.completed == 7
    assert run.keys("parts/") == []


def test_prompts_without_an_end_are_counted_as_not_run(run: Run) -> None:
    outcome = run.plan(SEVEN)
    run.work(outcome, outcome.plan.batches[2])
    result = run.merge(outcome).result
    assert (result.total, result.completed, result.not_run) == (7, 1, 6)


def test_a_ledger_that_lies_is_not_believed(run: Run) -> None:
    run.run(SEVEN)
    good = run.store.get("trajectories.jsonl").body
    body = run.store.get("batch_0.jsonl").body
    lines = body.split(b"\n")
    run.store.put("batch_0.jsonl", b"\n".join([lines[1], lines[0], *lines[2:]]))
    run.run(SEVEN)
    assert run.store.get("trajectories.jsonl").body == good
    assert len(run.asked) == 7


def test_a_row_that_was_mended_by_hand_is_taken_and_one_that_lost_bytes_runs_again(
    run: Run, folder: FolderStore
) -> None:
    prompts = ["first", "second", "third"]
    run.run(prompts)
    body = folder.get("batch_0.jsonl").body
    mended = body.replace(b'"value":"first"', b'"value":"FIRST"')
    assert mended != body
    folder.put("batch_0.jsonl", mended.replace(b'"value":"third"', b'"value":"\0\0ird"'))
    merged = run.merge(run.plan(prompts))
    assert merged.result.damaged == {"batch_0.jsonl": 1}
    assert [row["conversations"][0]["value"] for row in run.rows()] == ["FIRST", "second"]
    assert merged.result.not_run == 1


def test_a_row_that_lost_bytes_before_a_late_row_came_into_its_file_is_still_found(
    run: Run, folder: FolderStore
) -> None:
    prompts = ["first", "second", "third"]
    outcome = run.plan(prompts)
    (batch,) = outcome.plan.batches
    rows = batch_rows(folder, outcome.plan.plan_id, batch)
    early, late = run.recorder(outcome, batch), run.recorder(outcome, batch)
    for recorder, some in ((early, rows[:2]), (late, rows[2:])):
        for row in some:
            record(recorder, row, answered(row), batch.number, outcome.config_digest)
        recorder.finish()
        if recorder is early:
            body = folder.get("batch_0.jsonl").body
            damaged = body.replace(b'"value":"first"', b'"value":"\0\0rst"')
            assert damaged != body
            folder.put("batch_0.jsonl", damaged)
    assert run.merge(outcome).result.damaged == {"batch_0.jsonl": 1}
    assert run.prompts() == ["second", "third"]


def test_counts_that_do_not_add_up_stop_the_merge_and_the_old_result_stays(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = run.plan(SEVEN)
    for batch in outcome.plan.batches:
        run.work(outcome, batch)
    run.merge(outcome)
    before = run.contents()

    def forgetful(spec: Any, stored: StoredRun, order: Any, place: str) -> Any:
        selection = select(spec, stored, order, place)
        selection.picks.pop()
        return selection

    monkeypatch.setattr("batchrun_runner.merge.merger.select", forgetful)
    with pytest.raises(MergeFailed, match="7 stored rows went in and 6 came out"):
        run.merge(outcome)
    assert run.contents() == before


def test_a_merge_that_dies_at_any_write_leaves_a_whole_result_and_can_be_repeated(
    run: Run, folder: FolderStore
) -> None:
    run.agent = mixed
    outcome = run.plan(SEVEN)
    for batch in outcome.plan.batches:
        run.work(outcome, batch)
    run.merge(outcome)
    good = {key: body for key, body in run.contents().items() if not key.startswith("ledger/index")}
    for lives in range(40):
        run.store = DyingStore(folder, lives)
        try:
            run.merge(outcome)
            break
        except Killed:
            assert folder.get("trajectories.jsonl").body == good["trajectories.jsonl"]
    else:
        pytest.fail("a merge does not write 40 objects")
    assert {key: body for key, body in run.contents().items() if not key.startswith("ledger/index")} == good


def test_without_a_plan_there_is_no_merge(run: Run) -> None:
    outcome = run.plan(SEVEN)
    run.store.delete(["plans/p0/order.jsonl"])
    with pytest.raises(PlanBroken, match=r"plans/p0/order.jsonl is gone; planning again makes it anew"):
        run.merge(outcome)


def test_f04_every_row_of_every_origin_has_the_same_keys_types_and_order(run: Run) -> None:
    run.agent = mixed
    odd = json.loads(reference_rows(["prompt 1"])) | {
        "tool_stats": {"made_up": {"count": 1, "success": 0, "failure": 1}}
    }
    text = reference_rows(["prompt 0", "gone"]) + json.dumps(odd) + "\n"
    run.store.put("batch_0.jsonl", text.encode().rstrip(b"\n"))
    run.run(SEVEN)
    rows = [*run.rows(), *run.rows("discarded.jsonl")]
    assert [problem for row in rows for problem in row_problems(row)] == []
    assert {tuple(row) for row in rows} == {tuple(ROW_FEATURES)}
    old = run.rows()[0]
    assert (old["prompt_index"], old["outcome"], old["metadata"]["model"]) == (0, "completed", "old/model")
    assert old["metadata"]["timestamp"] == "2025-06-01T12:00:00.123456+00:00"
    assert old["conversations"][1]["tool_calls"] == []
    assert old["tool_stats"]["terminal"] == {"count": 2, "success": 1, "failure": 1}
    assert next(row["reason"] for row in run.rows("left_out.jsonl")) == "UnknownTools"


NEW_COLUMNS = ("occurrence", "sample", "seconds", "sampling", "verification")


def as_an_earlier_version_left_it(run: Run, *, with_ledger: bool) -> None:
    """Batch 0 without the columns that came later, and with entries that name no version."""
    rows = [
        {name: value for name, value in row.items() if name not in NEW_COLUMNS} for row in run.rows("batch_0.jsonl")
    ]
    lines = [json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode() + b"\n" for row in rows]
    head, *entries = run.store.get("ledger/batch_0.jsonl").body.splitlines()
    offset, written = 0, []
    for line, entry in zip(lines, entries, strict=True):
        document = json.loads(entry) | {"offset": offset, "length": len(line)}
        assert document.pop("schema") == ROW_SCHEMA
        written.append(json.dumps(document).encode() + b"\n")
        offset += len(line)
    run.store.put("batch_0.jsonl", b"".join(lines))
    run.store.delete(["ledger/index.jsonl", "ledger/batch_0.jsonl"])
    if with_ledger:
        ledger = json.dumps(json.loads(head) | {"size_bytes": offset}).encode() + b"\n" + b"".join(written)
        run.store.put("ledger/batch_0.jsonl", ledger)


@pytest.mark.parametrize("with_ledger", [True, False], ids=["with its ledger", "scanned"])
def test_rows_of_an_earlier_version_get_the_columns_that_came_later(run: Run, with_ledger: bool) -> None:
    prompts = ["same", "same", "other"]
    run.run(prompts)
    as_an_earlier_version_left_it(run, with_ledger=with_ledger)
    run.run([*prompts, "new"])
    assert len(run.asked) == 4
    rows = run.rows()
    assert [problem for row in rows for problem in row_problems(row)] == []
    assert [row["occurrence"] for row in rows] == [0, 1, 0, 0]
    assert [row["sampling"] for row in rows[:3]] == ["{}"] * 3
    total = 1.5 if with_ledger else 0.0
    assert rows[0]["seconds"] == {"total": total, "model": 0.0, "tools": 0.0, "sandbox": 0.0}
    assert rows[3]["seconds"]["total"] == 1.5
    assert rows[0]["conversations"][0]["value"] == "same"


@pytest.mark.parametrize("reads_at_once", [1, 3])
def test_large_rows_and_ranges_go_through(
    run: Run, folder: FolderStore, monkeypatch: pytest.MonkeyPatch, reads_at_once: int
) -> None:
    run.store = folder if reads_at_once == 1 else Wrapper(folder)
    monkeypatch.setattr("batchrun_runner.merge.streams._RANGE_BYTES", 3000)
    monkeypatch.setattr("batchrun_runner.merge.streams._AHEAD_BYTES", 5000)
    monkeypatch.setattr("batchrun_runner.merge.streams._MOST_BUFFERS", 2)
    prompts = [f"{number} " + "x" * (700 * number) for number in range(12)]
    run.run(prompts)
    run.run(["new", *prompts])
    assert run.prompts() == ["new", *prompts]
    assert [row["prompt_index"] for row in run.rows()] == list(range(13))
