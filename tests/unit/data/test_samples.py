"""`samplesPerPrompt`: what a sample is, what raising and lowering it costs, and how its rows stand in the result."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from pydantic import ValidationError
from tests.unit.data.support import Run, answered, batch_rows, failed, reference_rows

from batchrun_api.spec import BatchRunSpec
from batchrun_runner.columns import row_problems
from batchrun_runner.prompt_keys import occurrence_of, sample_of, with_sample
from batchrun_runner.records import PromptRow

PROMPTS = ["a", "b", "a"]


def places(run: Run, key: str = "trajectories.jsonl") -> list[tuple[int, int]]:
    """(prompt_index, sample) of each row, in the order of the file."""
    return [(row["prompt_index"], row["sample"]) for row in run.rows(key)]


def in_order(prompts: int, samples: int) -> list[tuple[int, int]]:
    return list(product(range(prompts), range(samples)))


def test_a_key_names_its_sample_and_sample_0_has_the_key_of_a_run_without_samples(run: Run) -> None:
    plain = run.plan(PROMPTS)
    keys = [row.key for batch in plain.plan.batches for row in batch_rows(run.store, plain.plan.plan_id, batch)]
    run.spec = {"samplesPerPrompt": 3}
    several = run.plan(PROMPTS)
    rows = [row for batch in several.plan.batches for row in batch_rows(run.store, several.plan.plan_id, batch)]

    assert [row.key for row in rows] == [with_sample(key, sample) for key in keys for sample in range(3)]
    assert [row.key for row in rows][::3] == keys
    assert [(row.index, sample_of(row.key)) for row in rows] == in_order(3, 3)
    assert [occurrence_of(row.key) for row in rows] == [0, 0, 0, 0, 0, 0, 1, 1, 1]
    assert [row.label for row in rows][3:6] == ["prompt 1", "prompt 1, sample 1", "prompt 1, sample 2"]
    assert sample_of("") == sample_of("no-key") == 0


def test_each_sample_is_counted_planned_and_told_as_a_prompt_of_its_own(run: Run) -> None:
    run.spec = {"samplesPerPrompt": 4, "batchSize": 5}
    outcome = run.plan(PROMPTS)
    counts = outcome.plan.counts
    assert (counts.total, counts.to_run, counts.samples_per_prompt) == (12, 12, 4)
    assert [len(batch.images) for batch in outcome.plan.batches] == [5, 5, 2]
    assert outcome.summary == "12 samples of 3 prompts: 0 done, 12 to run in 3 new batches"


def test_samples_of_a_row_lie_side_by_side_in_data_set_order_with_all_columns(run: Run) -> None:
    run.spec = {"samplesPerPrompt": 3, "batchSize": 2}
    merged = run.run(PROMPTS)
    assert places(run) == in_order(3, 3)
    assert run.prompts() == ["a", "a", "a", "b", "b", "b", "a", "a", "a"]
    assert [problem for row in run.rows() for problem in row_problems(row)] == []
    assert (merged.result.total, merged.result.completed, merged.result.not_run) == (9, 9, 0)
    statistics = run.json("statistics.json")
    assert (statistics["total_prompts"], statistics["samples_per_prompt"], statistics["total_batches"]) == (9, 3, 5)


def test_raising_the_number_runs_the_new_samples_alone_and_lowering_orphans_what_is_above(run: Run) -> None:
    run.run(PROMPTS)
    run.spec = {"samplesPerPrompt": 3}
    assert run.run(PROMPTS).result.completed == 9
    assert sorted(run.asked) == sorted([*PROMPTS, *PROMPTS, *PROMPTS]), "three of the nine were there already"
    assert places(run) == in_order(3, 3)

    run.spec = {"samplesPerPrompt": 2}
    lowered = run.run(PROMPTS).result
    assert (lowered.total, lowered.completed, lowered.orphaned) == (6, 6, 3)
    assert places(run) == [*in_order(3, 2), (-1, 2), (-1, 2), (-1, 2)]
    run.spec = {"samplesPerPrompt": 2, "merge": {"orphans": "Drop"}}
    run.run(PROMPTS)
    assert places(run) == in_order(3, 2)
    assert [(row["sample"], row["reason"]) for row in run.rows("left_out.jsonl")] == [(2, "Orphaned")] * 3

    run.spec = {"samplesPerPrompt": 4}
    assert run.run(PROMPTS).result.completed == 12
    assert len(run.asked) == 12, "what was orphaned counts again"
    assert places(run) == in_order(3, 4)


def test_max_samples_counts_rows_before_they_are_multiplied(run: Run) -> None:
    run.spec = {"maxSamples": 2, "samplesPerPrompt": 3}
    assert run.run(PROMPTS).result.total == 6
    assert run.asked == ["a", "a", "a", "b", "b", "b"]


def test_a_failed_sample_runs_again_alone(run: Run) -> None:
    run.spec = {"samplesPerPrompt": 3}
    run.agent = lambda row: failed(row) if (row.index, sample_of(row.key)) == (1, 2) else answered(row)
    failures = run.run(PROMPTS).result.failures
    assert [(note.prompt_index, note.sample) for note in failures] == [(1, 2)]
    run.asked.clear()
    run.agent = answered
    assert run.run(PROMPTS).result.completed == 9
    assert run.asked == ["b"]
    assert places(run) == in_order(3, 3)


def test_the_checkpoint_holds_prompts_whose_every_sample_is_done_and_samples_of_the_others(run: Run) -> None:
    run.spec = {"samplesPerPrompt": 3, "batchSize": 2, "batching": "DataSetOrder"}
    run.agent = lambda row: failed(row) if (row.index, sample_of(row.key)) == (1, 1) else answered(row)
    outcome = run.plan(PROMPTS)
    seen = []
    for batch in outcome.plan.batches:
        run.work(outcome, batch)
        checkpoint = run.json("checkpoint.json")
        seen.append((checkpoint["completed_prompts"], checkpoint.get("completed_samples")))
    assert seen == [
        ([], {"0": [0, 1]}),
        ([0], {"1": [0]}),
        ([0], {"1": [0, 2]}),
        ([0], {"1": [0, 2], "2": [0, 1]}),
        ([0, 2], {"1": [0, 2]}),
    ]
    for damage in (b"{", None):
        run.merge(outcome)
        checkpoint = run.json("checkpoint.json")
        assert (checkpoint["completed_prompts"], checkpoint["completed_samples"]) == ([0, 2], {"1": [0, 2]})
        if damage:
            run.store.put("checkpoint.json", damage)
            run.recorder(outcome, outcome.plan.batches[0]).finish()
            assert run.json("checkpoint.json")["completed_samples"] == {"1": [0, 2]}
    run.agent = answered
    run.run(PROMPTS)
    assert run.json("checkpoint.json")["completed_prompts"] == [0, 1, 2]
    assert "completed_samples" not in run.json("checkpoint.json")


def test_a_row_of_the_reference_is_sample_0_of_its_own_row_and_no_other_sample(run: Run) -> None:
    run.store.put("batch_0.jsonl", reference_rows(["a", "a"]).encode())
    run.spec = {"samplesPerPrompt": 2}
    rows: list[Any] = [{"prompt": "a", "image": "one"}, {"prompt": "a", "image": "two"}]
    merged = run.run(rows)
    assert run.asked == ["a", "a"]
    assert places(run) == in_order(2, 2)
    assert [row["metadata"]["model"] for row in run.rows()] == ["old/model", "m", "old/model", "m"]
    assert (merged.result.total, merged.result.completed, merged.result.orphaned) == (4, 4, 0)


def test_an_invalid_row_is_counted_among_rows_and_not_among_samples(run: Run) -> None:
    run.spec = {"samplesPerPrompt": 5}
    with pytest.raises(Exception, match="1 of 2 rows cannot be used"):
        run.plan('{"prompt":"a"}\n{"prompt":5}\n')


def test_samples_of_one_row_may_end_in_different_ways_and_the_total_adds_up(run: Run) -> None:
    run.spec = {"samplesPerPrompt": 3, "batchSize": 1}

    def work(row: PromptRow) -> Any:
        ends = (answered(row), failed(row), answered(row, reasoning=False))
        return replace(ends[sample_of(row.key)], boot_id=row.key)

    run.agent = work
    outcome = run.plan(PROMPTS)
    for batch in outcome.plan.batches[:-1]:
        run.work(outcome, batch)
    result = run.merge(outcome).result
    assert (result.completed, result.failed, result.discarded, result.not_run, result.total) == (3, 3, 2, 1, 9)
    assert places(run, "discarded.jsonl") == [(0, 2), (1, 2)]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"samplesPerPrompt": 0}, "samplesPerPrompt"),
        ({"samplesPerPrompt": 1001}, "samplesPerPrompt"),
        ({"samplesPerPrompt": 1000, "maxSamples": 10**6 + 1}, "maxSamples times samplesPerPrompt"),
        ({"samplesPerPrompt": 2, "model": {"sampling": {"seed": 2**53}}}, "lower the seed"),
    ],
)
def test_what_is_too_much_is_refused_by_name(spec: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        BatchRunSpec.model_validate({"dataset": {"inline": "-"}, **spec})


def test_what_is_just_not_too_much_is_taken() -> None:
    seed = {"sampling": {"seed": 2**53 - 999}}
    spec = {"dataset": {"inline": "-"}, "samplesPerPrompt": 1000, "maxSamples": 10**6, "model": seed}
    assert BatchRunSpec.model_validate(spec).samples_per_prompt == 1000
