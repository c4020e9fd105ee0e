"""Planning: what is refused and how it is told, what is cut into batches, what a resume leaves alone."""

import json
from typing import Any

import pytest
from tests.unit.data.support import Run, answered, batch_rows, failed, jsonl, reference_rows

from batchrun_api.conditions import Reason
from batchrun_runner.columns import row_problems
from batchrun_runner.dataset.errors import DatasetInvalid
from batchrun_runner.ledger.errors import PlanBroken
from batchrun_runner.ledger.ownership import ConfigChanged, OutputInUse, OutputNotEmpty
from batchrun_runner.settings import Owner
from batchrun_runner.storage.folder import FolderStore

SEVEN = [f"prompt {number}" for number in range(7)]


def test_rows_are_cut_into_batches_in_data_set_order(run: Run) -> None:
    run.spec = {"batching": "DataSetOrder"}
    rows: list[Any] = [*SEVEN[:5], {"prompt": "six", "image": "rust:1.75"}, {"prompt": "seven", "image": "rust:1.75"}]
    outcome = run.plan(rows)
    plan = outcome.plan
    assert [batch.number for batch in plan.batches] == [0, 1, 2]
    assert plan.images == ["rust:1.75"]
    assert [batch.images for batch in plan.batches] == [[-1, -1, -1], [-1, -1, 0], [0]]
    read = [row for batch in plan.batches for row in batch_rows(run.store, plan.plan_id, batch)]
    assert [row.index for row in read] == list(range(7))
    assert [row.prompt for row in read] == [*SEVEN[:5], "six", "seven"]
    assert outcome.summary == "7 prompts: 0 done, 7 to run in 3 new batches"


def test_all_fields_of_a_row_reach_the_batch(run: Run) -> None:
    outcome = run.plan([{"prompt": "p", "image": "i", "cwd": "/w", "id": "t1", "hard": True}])
    (row,) = batch_rows(run.store, outcome.plan.plan_id, outcome.plan.batches[0])
    assert (row.image, row.cwd, row.id, row.extra) == ("i", "/w", "t1", '{"hard":true}')


def test_invalid_rows_refuse_the_run_with_line_reason_and_fix_before_anything_runs(run: Run) -> None:
    with pytest.raises(DatasetInvalid) as caught:
        run.plan('{"prompt":"p1"}\n{"prompt":5}\n{"Prompt":"x"}\n')
    message = str(caught.value)
    assert caught.value.reason is Reason.DATASET_INVALID
    assert "2 of 3 rows cannot be used" in message
    assert "line 2: `prompt` is a number, not a string; give the text as a JSON string" in message
    assert "line 3: it has no key `prompt` (found `Prompt`); name the text `prompt`" in message
    assert "set dataset.onInvalidRow: Skip" in message
    assert [(row["line"], row["shown"]) for row in run.rows("rejected.jsonl")] == [
        (2, '{"prompt":5}'),
        (3, '{"Prompt":"x"}'),
    ]
    assert run.keys("plans/") == []


def test_d07_the_message_of_many_invalid_rows_stays_short(run: Run) -> None:
    with pytest.raises(DatasetInvalid) as caught:
        run.plan("".join(f'{{"prompt":{number}}}\n' for number in range(1000)))
    assert "and 995 more" in str(caught.value)
    assert len(str(caught.value)) < 1000
    assert len(run.rows("rejected.jsonl")) == 1000


def test_skipped_rows_are_counted_and_listed_and_a_mended_data_set_clears_the_list(run: Run) -> None:
    run.spec = {"dataset": {"inline": "-", "onInvalidRow": "Skip"}}
    outcome = run.plan('{"prompt":"p1"}\n{"prompt":5}\n{"prompt":"p2"}\n')
    assert (outcome.plan.counts.total, outcome.plan.counts.invalid) == (2, 1)
    assert [row.line for row in outcome.rejected] == [2]
    assert "1 invalid row skipped (see rejected.jsonl)" in outcome.summary
    (note,) = outcome.plan.notes
    assert "line 2" in note
    assert "rejected.jsonl" in note
    run.plan(["p1", "p2"])
    assert run.keys("rejected") == []


def test_a_data_set_of_skipped_rows_alone_is_refused_by_what_it_holds(run: Run) -> None:
    run.spec = {"dataset": {"inline": "-", "onInvalidRow": "Skip"}}
    with pytest.raises(DatasetInvalid, match=r"holds no prompt; 1 row cannot be used, see .*rejected.jsonl"):
        run.plan('{"prompt":5}\n')


def test_a_resume_names_what_is_stored_and_damaged_or_gone(run: Run, folder: FolderStore) -> None:
    run.spec = {"batchSize": 2}
    prompts = [f"prompt {number}" for number in range(6)]
    run.run(prompts)
    folder.put("batch_0.jsonl", folder.get("batch_0.jsonl").body[:-30])
    folder.delete(["batch_2.jsonl"])
    outcome = run.plan(prompts)
    assert outcome.plan.counts.to_run == 3
    assert [note.split(";")[0] for note in outcome.plan.notes] == [
        f"{folder.place}/batch_0.jsonl holds 1 damaged row",
        f"{folder.place}/batch_2.jsonl is gone, and its ledger is not",
    ]


@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff"])
def test_a_data_set_without_a_prompt_is_refused(run: Run, text: str) -> None:
    with pytest.raises(DatasetInvalid, match="holds no prompt"):
        run.plan(text)


def test_max_samples_counts_valid_rows_before_the_resume_filter(run: Run) -> None:
    run.spec = {"maxSamples": 4, "dataset": {"inline": "-", "onInvalidRow": "Skip"}}
    text = "5\n" + jsonl(SEVEN)
    run.run(text)
    assert run.asked == SEVEN[:4]
    run.run(text)
    assert run.asked == SEVEN[:4]
    run.spec["maxSamples"] = 6
    run.run(text)
    assert run.asked == SEVEN[:6]


def test_rows_beyond_a_lowered_max_samples_are_orphaned_and_come_back_when_it_is_raised(run: Run) -> None:
    run.run(SEVEN)
    run.spec = {"maxSamples": 3}
    shorter = run.run(SEVEN).result
    assert (shorter.total, shorter.completed, shorter.not_run, shorter.orphaned) == (3, 3, 0, 4)
    assert [row["prompt_index"] for row in run.rows()] == [0, 1, 2, -1, -1, -1, -1]
    assert run.json("statistics.json")["total_prompts"] == 3
    run.spec = {"maxSamples": 3, "merge": {"orphans": "Drop"}}
    run.run(SEVEN)
    assert run.prompts() == SEVEN[:3]
    run.spec = {"maxSamples": 5}
    run.run(SEVEN)
    assert [row["prompt_index"] for row in run.rows()] == [0, 1, 2, 3, 4, -1, -1]
    assert run.asked == SEVEN, "nothing is paid for twice"


def test_g02_a_resume_takes_new_numbers_and_leaves_old_files_alone(run: Run) -> None:
    first = run.plan(SEVEN)
    run.work(first, first.plan.batches[1])
    before = run.contents()
    second = run.plan(SEVEN)
    assert [batch.number for batch in second.plan.batches] == [3, 4]
    for batch in second.plan.batches:
        run.work(second, batch)
    run.merge(second)
    assert sorted(run.asked) == sorted(SEVEN)
    assert run.contents()["batch_1.jsonl"] == before["batch_1.jsonl"]
    assert run.prompts() == SEVEN


def test_numbers_lie_above_those_of_plans_that_never_ran_and_of_lone_ledgers(run: Run) -> None:
    run.plan(SEVEN)
    run.store.put("ledger/batch_7.jsonl", b"whatever")
    assert [batch.number for batch in run.plan(SEVEN).plan.batches] == [8, 9, 10]


def test_a_batch_whose_rows_another_plan_replaced_is_refused(run: Run) -> None:
    first = run.plan(SEVEN, plan_id="p")
    run.plan(SEVEN, plan_id="p")
    with pytest.raises(PlanBroken, match="another plan has replaced the rows of batch 0"):
        batch_rows(run.store, "p", first.plan.batches[0])


def test_failed_prompts_run_again_and_everything_else_does_not(run: Run) -> None:
    run.agent = lambda row: failed(row) if row.index == 2 else answered(row, reasoning=row.index != 3)
    run.run(SEVEN)
    run.asked.clear()
    outcome = run.plan(SEVEN)
    counts = outcome.plan.counts
    assert (counts.total, counts.done, counts.completed, counts.discarded, counts.to_run) == (7, 6, 5, 1, 1)
    assert outcome.summary == "7 prompts: 6 done (5 completed, 1 discarded), 1 to run in 1 new batch"
    run.agent = answered
    run.run(SEVEN)
    assert run.asked == ["prompt 2"]


def test_g03_discarded_prompts_are_never_paid_for_twice(run: Run) -> None:
    run.agent = lambda row: answered(row, reasoning=False)
    merged = run.run(SEVEN)
    assert (merged.result.discarded, merged.result.completed) == (7, 0)
    run.run(SEVEN)
    merged = run.run(SEVEN)
    assert len(run.asked) == 7
    assert merged.result.discarded == 7
    assert len(run.rows("discarded.jsonl")) == 7
    assert run.rows() == []


def test_g01_equal_prompts_are_counted_by_occurrence(run: Run) -> None:
    run.spec = {"batchSize": 1}
    outcome = run.plan(["same"] * 3)
    run.work(outcome, outcome.plan.batches[0])
    run.run(["same"] * 3)
    assert len(run.asked) == 3
    assert [row["prompt_index"] for row in run.rows()] == [0, 1, 2]
    assert len({row["key"] for row in run.rows()}) == 3


def test_a_removed_batch_file_runs_again_alone(run: Run) -> None:
    run.run(SEVEN)
    run.asked.clear()
    before = {item.key: item.etag for item in run.store.listing("batch_")}
    run.store.delete(["batch_1.jsonl"])
    run.run(SEVEN)
    assert run.asked == SEVEN[3:6]
    after = {item.key: item.etag for item in run.store.listing("batch_")}
    assert {key: after[key] for key in ("batch_0.jsonl", "batch_2.jsonl")} == {
        key: before[key] for key in ("batch_0.jsonl", "batch_2.jsonl")
    }
    assert run.prompts() == SEVEN


@pytest.mark.parametrize("lost", ["ledger/batch_0.jsonl", "ledger/index.jsonl", "checkpoint.json"])
@pytest.mark.parametrize("damage", [None, b"", b"{", b'{"batch":0,"size_bytes":1}\n', b'"x"\n5\n'])
def test_g04_what_is_derived_may_be_lost_or_damaged(run: Run, lost: str, damage: bytes | None) -> None:
    run.run(SEVEN)
    result = run.store.get("trajectories.jsonl").body
    if damage is None:
        run.store.delete([lost])
    else:
        run.store.put(lost, damage)
    run.run(SEVEN)
    assert run.asked == SEVEN
    assert run.store.get("trajectories.jsonl").body == result
    assert run.json("checkpoint.json")["completed_prompts"] == list(range(7))


@pytest.mark.parametrize("entry", [b'{"outcome":"nonsense"}\n', b"5\n", b'{"outcome":\n'])
@pytest.mark.parametrize("is_index_lost", [False, True])
def test_g04_a_ledger_with_one_damaged_entry_is_not_believed(run: Run, entry: bytes, is_index_lost: bool) -> None:
    run.run(SEVEN)
    result = run.store.get("trajectories.jsonl").body
    head, _, *rest = run.store.get("ledger/batch_0.jsonl").body.splitlines(keepends=True)
    run.store.put("ledger/batch_0.jsonl", b"".join((head, entry, *rest)))
    if is_index_lost:
        run.store.delete(["ledger/index.jsonl"])
    run.run(SEVEN)
    assert run.asked == SEVEN
    assert run.store.get("trajectories.jsonl").body == result


def test_another_owner_is_refused_and_a_re_created_one_takes_over(run: Run) -> None:
    run.owner = Owner("uid-1", "team-a", "first")
    run.plan(SEVEN)
    run.plan(SEVEN)
    run.owner = Owner("uid-2", "team-b", "first")
    with pytest.raises(
        OutputInUse, match="belongs to BatchRun first in namespace team-a; give this one another runName"
    ):
        run.plan(SEVEN)
    run.owner = Owner("uid-3", "team-a", "first")
    run.plan(SEVEN)
    assert run.json("owner.json")["uid"] == "uid-3"
    run.store.put("owner.json", b"{")
    with pytest.raises(OutputInUse, match=r"owner.json cannot be read; delete it"):
        run.plan(SEVEN)


def test_on_one_machine_nobody_owns_the_folder(run: Run) -> None:
    run.plan(SEVEN)
    assert run.keys("owner") == []


def test_never_refuses_results_and_not_its_own_plan(run: Run) -> None:
    run.spec = {"resumePolicy": "Never"}
    first = run.plan(SEVEN, plan_id="p")
    run.work(first, first.plan.batches[0])
    run.plan(SEVEN, plan_id="p")
    with pytest.raises(
        OutputNotEmpty, match=r"holds results \(batch_0.jsonl\) and resumePolicy is Never; set it to Continue"
    ):
        run.plan(SEVEN, plan_id="another")


def test_another_configuration_is_refused_naming_what_changed(run: Run) -> None:
    run.spec = {"model": {"name": "a/one", "sampling": {"temperature": 0.5}}}
    run.run(SEVEN[:3])
    run.spec = {"model": {"name": "b/two"}, "agent": {"systemPrompt": "a secret of the house"}}
    with pytest.raises(ConfigChanged) as caught:
        run.plan(SEVEN)
    message = str(caught.value)
    assert "3 results of another configuration" in message
    assert "model.name (was a/one, now b/two)" in message
    assert 'model.sampling (was {"temperature":0.5}, now not set)' in message
    assert "agent.systemPrompt" in message
    assert "secret" not in message
    assert "Set resumePolicy: Force" in message
    run.spec["resumePolicy"] = "Force"
    assert run.plan(SEVEN).plan.counts.done == 3


@pytest.mark.parametrize(
    "change",
    [
        {"numWorkers": 9},
        {"agent": {"maxTurns": 3}},
        {"filters": {"requireReasoning": False}},
        {"model": {"baseURL": "http://127.0.0.1:1/v1"}},
        {"sandbox": {"commandTimeoutSeconds": 5}},
        {"batchSize": 7},
    ],
)
def test_limits_filters_and_places_are_no_part_of_the_configuration(run: Run, change: dict[str, Any]) -> None:
    run.run(SEVEN)
    run.spec = change
    run.run(SEVEN)
    assert run.asked == SEVEN


def test_the_ephemeral_system_prompt_lies_nowhere_in_the_store(run: Run) -> None:
    run.spec = {"agent": {"ephemeralSystemPrompt": "whisper"}}
    run.run(SEVEN)
    assert not [key for key, body in run.contents().items() if b"whisper" in body]


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_a_run_of_the_reference_is_resumed_by_stripped_text_and_occurrence(run: Run, has_checkpoint: bool) -> None:
    run.store.put("batch_0.jsonl", reference_rows(["prompt 0", " prompt 2\n", "same", "gone"]).encode())
    run.store.put("batch_1.jsonl", reference_rows(["prompt 4"], failed=True).encode())
    if has_checkpoint:
        # Its numbers are of another data set than ours, and say nothing.
        body = b'{"run_name":"first_run","completed_prompts":[0,1,6],"batch_stats":{"0":{"processed":4}}}'
        run.store.put("checkpoint.json", body)
    rows = [*SEVEN[:5], "same", "same"]
    outcome = run.plan(rows)
    counts = outcome.plan.counts
    assert (counts.total, counts.done, counts.to_run, counts.orphaned) == (7, 3, 4, 1)
    assert [batch.number for batch in outcome.plan.batches] == [2, 3]
    merged = run.run(rows)
    assert run.asked == ["prompt 1", "prompt 3", "prompt 4", "same"]
    assert (merged.result.completed, merged.result.orphaned) == (7, 1)
    assert [row["prompt_index"] for row in run.rows()] == [0, 1, 2, 3, 4, 5, 6, -1]
    assert {row["reason"] for row in run.rows("left_out.jsonl")} == {"Superseded"}
    assert [problem for row in run.rows() for problem in row_problems(row)] == []
    assert len({row["key"] for row in run.rows() if row["prompt_index"] >= 0}) == 7
    assert run.json("checkpoint.json")["completed_prompts"] == list(range(7))
    assert set(run.json("checkpoint.json")["batch_stats"]) == {"0", "1", "4", "5"}


def test_a_torn_last_line_runs_again_and_nothing_is_appended_to_it(run: Run) -> None:
    body = reference_rows(["prompt 0", "prompt 1"]).encode()[:-40]
    run.store.put("batch_0.jsonl", body)
    merged = run.run(SEVEN[:2])
    assert run.asked == ["prompt 1"]
    assert run.store.get("batch_0.jsonl").body == body
    assert merged.result.completed == 2
    (damaged,) = run.rows("left_out.jsonl")
    assert (damaged["batch"], damaged["line"], damaged["reason"]) == (0, 2, "Damaged")


def test_outcomes_are_judged_by_the_filters_of_today(run: Run) -> None:
    run.agent = lambda row: answered(row, reasoning=False)
    run.run(SEVEN)
    run.spec = {"filters": {"requireReasoning": False}}
    assert run.plan(SEVEN).plan.counts.completed == 7


def test_the_plan_document_holds_no_prompt(run: Run) -> None:
    outcome = run.plan(["a very special text"])
    assert "special" not in json.dumps(outcome.plan.model_dump())
