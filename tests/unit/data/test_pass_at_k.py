"""pass@k: the estimator against counting by hand, and which samples, prompts and k stand in the figures."""

import io
from collections import Counter
from dataclasses import replace
from itertools import combinations
from math import comb
from typing import Any

import pytest
from rich.console import Console
from tests.unit.data.support import Run, answered, failed

from batchrun_api.outcomes import Outcome
from batchrun_runner.ledger.entry import LedgerEntry
from batchrun_runner.merge.figures import Figures
from batchrun_runner.merge.pass_at_k import Estimate, RewardTally, chances, estimates, passed_samples
from batchrun_runner.merge.table import render_table
from batchrun_runner.prompt_keys import sample_of
from batchrun_runner.records import PromptResult, PromptRow, Verification

PROMPTS = ["a", "b", "c", "d"]


def share_of_subsets(verdicts: list[bool], k: int) -> float:
    """How many of all ways to draw k samples have at least one that passed."""
    drawn = list(combinations(verdicts, k))
    return sum(any(some) for some in drawn) / len(drawn)


@pytest.mark.parametrize("rewards", range(1, 9))
def test_it_is_the_share_of_all_k_subsets_with_a_sample_that_passed(rewards: int) -> None:
    for passed in range(rewards + 1):
        verdicts = [number < passed for number in range(rewards)]
        expected = [share_of_subsets(verdicts, k) for k in range(1, rewards + 1)]
        assert list(chances(rewards, passed)) == pytest.approx(expected, abs=1e-12)


def test_nothing_is_lost_with_a_thousand_samples() -> None:
    found = list(chances(1000, 3))
    expected = [1 - comb(997, k) / comb(1000, k) for k in range(1, 1001)]
    assert found == pytest.approx(expected, abs=1e-12)
    assert (list(chances(1000, 0)), list(chances(1000, 1000))) == ([0.0] * 1000, [1.0] * 1000)


def test_each_k_is_the_mean_over_prompts_with_so_many_rewards() -> None:
    sampled = Counter({(3, 1): 2, (2, 2): 1, (1, 0): 1})
    assert estimates(sampled, 4) == [
        Estimate(1, round((1 / 3 + 1 / 3 + 1 + 0) / 4, 6), 4),
        Estimate(2, round((2 / 3 + 2 / 3 + 1) / 3, 6), 3),
        Estimate(3, 1.0, 2),
    ]
    assert estimates(Counter(), 4) == []
    assert passed_samples(sampled) == 4


def test_rewards_are_gathered_prompt_by_prompt_and_only_a_whole_one_or_more_passes() -> None:
    sampled: Counter[tuple[int, int]] = Counter()
    tally = RewardTally(sampled)
    for index, reward in ((0, 1.0), (0, 0.999), (0, 0.0), (1, 2.5), (4, -1.0), (4, 1.0)):
        tally.add(index, reward)
    tally.close()
    tally.close()
    assert sampled == {(3, 1): 1, (1, 1): 1, (2, 1): 1}


def test_sums_over_parts_of_a_run_can_be_added() -> None:
    one, other = Figures(), Figures()
    for figures, index, reward in ((one, 0, 1.0), (other, 1, 0.0), (other, 2, 1.0)):
        line = LedgerEntry(key="k", outcome=Outcome.COMPLETED, reward=reward).encode()
        figures.add([(line, Outcome.COMPLETED, "", index)])
    assert (one + other).sampled == {(1, 1): 2, (1, 0): 1}


# By prompt, then sample. None: no verdict; "failed"; "dropped" passed and has no reasoning.
ENDS: list[list[Any]] = [
    [1.0, 0.0, 0.0],
    [1.0, "failed", 1.0],
    ["dropped", 0.5, 0.0],
    [None, "failed", None],
]


def work(row: PromptRow) -> PromptResult:
    end = ENDS[row.index][sample_of(row.key)]
    if end == "failed":
        return failed(row)
    result = answered(row, reasoning=end != "dropped")
    return replace(result, verification=Verification(1.0 if end == "dropped" else end))


def test_a_run_counts_dropped_samples_and_sets_those_without_a_reward_beside(run: Run) -> None:
    run.spec = {"samplesPerPrompt": 3, "batchSize": 5}
    run.agent = work
    merged = run.run(PROMPTS)

    document = run.json("statistics.json")
    assert document["reward"] == {"count": 8, "mean": round(4.5 / 8, 6)}
    assert document["pass_at_k"] == {
        "samples": {"with_reward": 8, "passed": 4, "not_judged": 2, "failed": 2, "not_run": 0},
        "estimates": [
            {"k": 1, "value": round((1 / 3 + 1 + 1 / 3) / 3, 6), "prompts": 3},
            {"k": 2, "value": round((2 / 3 + 1 + 2 / 3) / 3, 6), "prompts": 3},
            {"k": 3, "value": 1.0, "prompts": 2},
        ],
    }
    reward = merged.result.reward
    assert reward is not None
    assert (reward.count, [item.k for item in reward.pass_at]) == (8, [1, 3])
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(render_table(merged.statistics))
    text = console.export_text()
    for words in (
        "12 samples of 4 prompts",
        "of 8 samples",
        "0.5556, over 3 prompts",
        "1.0000, over 2 prompts",
        "2 not judged, 2 failed",
    ):
        assert words in text


def test_rows_above_a_lowered_number_count_for_nothing(run: Run) -> None:
    run.spec = {"samplesPerPrompt": 3}
    run.agent = work
    run.run(PROMPTS)
    run.spec = {"samplesPerPrompt": 1}
    run.run(PROMPTS)
    document = run.json("statistics.json")
    assert document["pass_at_k"]["estimates"] == [{"k": 1, "value": 1.0, "prompts": 3}]
    assert document["orphaned"] > 0


def test_one_sample_of_each_prompt_has_pass_at_1(run: Run) -> None:
    run.agent = lambda row: replace(answered(row), verification=Verification(float(row.index % 2)))
    merged = run.run(PROMPTS)
    assert run.json("statistics.json")["pass_at_k"]["estimates"] == [{"k": 1, "value": 0.5, "prompts": 4}]
    assert merged.result.reward is not None
    assert [(item.k, item.value) for item in merged.result.reward.pass_at] == [(1, 0.5)]


def test_without_a_verifier_there_is_no_pass_at_k(run: Run) -> None:
    run.spec = {"samplesPerPrompt": 2}
    merged = run.run(PROMPTS)
    assert "pass_at_k" not in run.json("statistics.json")
    assert merged.result.reward is None
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(render_table(merged.statistics))
    assert "pass@" not in console.export_text()
