"""`statistics.json` and its table."""

import io
from dataclasses import replace

from rich.console import Console
from tests.unit.data.support import Run, answered, failed

from batchrun_api.outcomes import Outcome
from batchrun_runner.ledger.entry import LedgerEntry
from batchrun_runner.merge.figures import Figures, percent
from batchrun_runner.merge.table import render_table
from batchrun_runner.records import PromptResult, PromptRow, ToolStat, Usage, Verification

REFERENCE_KEYS = {
    "run_name",
    "distribution",
    "total_prompts",
    "total_batches",
    "batch_size",
    "model",
    "completed_at",
    "duration_seconds",
    "tool_statistics",
    "reasoning_statistics",
}


def test_all_keys_of_the_reference_and_the_figures_of_the_whole_run(run: Run) -> None:
    run.agent = lambda row: (
        failed(row)
        if row.index == 0
        else replace(answered(row, reasoning=row.index != 1), tool_stats={"terminal": ToolStat(3, 2, 1)})
    )
    run.run([f"prompt {number}" for number in range(5)])
    document = run.json("statistics.json")
    assert document.keys() >= REFERENCE_KEYS
    assert (document["total_prompts"], document["total_batches"], document["batch_size"]) == (5, 2, 3)
    assert document["outcomes"] == {"completed": 3, "truncated": 0, "discarded": 1, "failed": 1, "not_run": 0}
    assert document["tool_statistics"] == {
        "terminal": {"count": 9, "success": 6, "failure": 3, "success_rate": 66.67, "failure_rate": 33.33}
    }
    assert document["reasoning_statistics"] == {
        "total_assistant_turns": 6,
        "turns_with_reasoning": 6,
        "turns_without_reasoning": 0,
        "reasoning_rate": 100.0,
    }
    assert document["tokens"]["total_tokens"] == 5 * 120
    assert document["discarded"] == {"NoReasoning": 1}
    assert document["reasons"] == {"NoReasoning": 1, "ProviderError": 1}
    assert document["completed_at"] == "1970-01-01T00:50:00.000000+00:00"
    assert document["rows"] == {"stored": 5, "trajectories": 4, "discarded": 1, "not_used": 0}


def test_a06_rates_over_nothing_are_zero_and_always_floats(run: Run) -> None:
    run.agent = lambda row: replace(
        answered(row), tool_stats={}, assistant_turns=0, turns_with_reasoning=0, conversations=[]
    )
    run.run(["p"])
    document = run.json("statistics.json")
    assert document["tool_statistics"] == {}
    assert document["reasoning_statistics"]["reasoning_rate"] == 0.0
    assert isinstance(percent(1, 1), float)
    assert isinstance(percent(0, 0), float)


def entry(ended_at: float, seconds: float) -> bytes:
    return LedgerEntry(
        key="k",
        outcome=Outcome.COMPLETED,
        usage=Usage(1, 2, 3, 4, 5, 6),
        tool_stats={"terminal": ToolStat(1, 1, 0)},
        ended_at=ended_at,
        seconds=seconds,
        model_seconds=2.0,
        tool_seconds=1.0,
        sandbox_seconds=0.5,
    ).encode()


def test_sums_can_be_added_and_active_time_counts_overlaps_once_and_pauses_never() -> None:
    one, other, whole = Figures(), Figures(), Figures()
    for figures, line in (
        (one, entry(110.0, 10.0)),
        (one, entry(112.0, 8.0)),
        (other, entry(1005.0, 5.0)),
        (other, entry(111.0, 1.0)),
    ):
        figures.add([(line, Outcome.COMPLETED, "", 0)])
        whole.add([(line, Outcome.COMPLETED, "", 0)])
    both = one + other
    assert both.active_seconds == whole.active_seconds == 17.0
    assert both.wall_seconds == 905.0
    assert both.usage == whole.usage == [4, 8, 12, 16, 20, 24]
    assert both.model_seconds == whole.model_seconds == 8.0
    assert both.tool_seconds == whole.tool_seconds == 4.0
    assert both.sandbox_seconds == whole.sandbox_seconds == 2.0
    assert both.tools == whole.tools == {"terminal": [4, 4, 0]}
    assert both.outcomes == whole.outcomes
    assert Figures().active_seconds == Figures().wall_seconds == 0.0


def test_seconds_of_each_phase_are_summed_over_all_resumes(run: Run) -> None:
    run.agent = lambda row: replace(
        failed(row) if row.index == 1 else answered(row), model_seconds=0.5, tool_seconds=0.25, sandbox_seconds=0.125
    )
    run.run(["a", "b"])
    run.run(["a", "b", "c"])
    seconds = run.json("statistics.json")["seconds"]
    assert {name: seconds[name] for name in ("prompts", "model", "tools", "sandbox")} == {
        "prompts": 3 * 1.5,
        "model": 3 * 0.5,
        "tools": 0.75,
        "sandbox": 0.38,
    }


def test_own_probabilities_are_shown_as_one_string(run: Run) -> None:
    run.spec = {"distribution": {"terminal": 100, "web": 30}}
    run.run(["p"])
    assert run.json("statistics.json")["distribution"] == '{"terminal":100,"web":30}'


def test_the_table_shows_outcomes_reasons_tools_and_tokens(run: Run) -> None:
    run.agent = lambda row: failed(row) if row.index == 0 else answered(row)
    merged = run.run(["a", "b", "[bold]c"])
    console = Console(width=100, force_terminal=False)
    with console.capture() as capture:
        console.print(render_table(merged.statistics))
    text = capture.get()
    for expected in (
        "first_run: 3 prompts",
        "completed",
        "66.7 %",
        "ProviderError",
        "terminal",
        "100.00 %",
        "360 (300 in",
    ):
        assert expected in text


def test_an_entry_survives_its_file() -> None:
    original = LedgerEntry(
        key="k",
        outcome=Outcome.DISCARDED,
        prompt_index=3,
        reason="NoReasoning",
        message="é",
        unfiltered_outcome=Outcome.TRUNCATED,
        unfiltered_reason="MaxTurns",
        has_unknown_tools=True,
        usage=Usage(1, 2, 3, 4, 5),
        tool_stats={"terminal": ToolStat(1, 0, 1)},
        seconds=1.25,
        offset=10,
        length=20,
    )
    assert LedgerEntry.decode(original.encode()) == original


def test_the_mean_reward_is_over_prompts_that_have_one_those_that_a_filter_dropped_included(run: Run) -> None:
    rewards = [1.0, 0.0, 0.5, None, None]

    def work(row: PromptRow) -> PromptResult:
        if row.index == 4:
            return failed(row)
        return replace(answered(row, reasoning=row.index != 2), verification=Verification(rewards[row.index]))

    run.agent = work
    merged = run.run([f"prompt {number}" for number in range(5)])

    assert run.json("statistics.json")["reward"] == {"count": 3, "mean": 0.5}
    assert [row["reward"] for row in run.rows("trajectories.jsonl")] == [1.0, 0.0, None, None]
    assert [row["reward"] for row in run.rows("discarded.jsonl")] == [0.5]
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(render_table(merged.statistics))
    assert "0.5000 on average, of 3 prompts" in console.export_text()

    run.store.delete(["ledger/index.jsonl", "ledger/batch_0.jsonl", "ledger/batch_1.jsonl"])
    run.run([f"prompt {number}" for number in range(5)])
    assert run.json("statistics.json")["reward"] == {"count": 3, "mean": 0.5}


def test_without_a_verifier_there_is_no_mean(run: Run) -> None:
    run.run(["prompt"])
    assert run.json("statistics.json")["reward"] == {"count": 0, "mean": None}
