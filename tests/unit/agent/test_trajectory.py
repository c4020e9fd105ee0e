"""The row: the same keys, order and types whatever happened; what goes in comes out."""

import json
import re
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from batchrun_api.outcomes import Outcome, Reason
from batchrun_api.toolsets import ALL_TOOLS
from batchrun_runner.agent.conversation import (
    Turn,
    conversation,
    gpt_value,
    split_gpt_value,
    split_tool_value,
    tool_value,
)
from batchrun_runner.agent.trajectory import to_row
from batchrun_runner.model.calls import ToolCall
from batchrun_runner.records import PromptResult, PromptRow, ToolStat

KEYS = [
    "prompt_index", "conversations", "metadata", "completed", "partial", "api_calls", "toolsets_used", "tool_stats",
    "tool_error_counts", "outcome", "reason", "message", "key", "occurrence", "sample", "id", "usage", "seconds",
    "tools", "sampling", "invalid_tool_calls", "reward", "verification", "artifacts", "sandbox", "config_digest",
    "extra",
]  # fmt: skip
ROW = PromptRow(index=3, key="k-0-0", prompt="Do it.", id="task/3", extra='{"level":2}')


def write(result: PromptResult) -> bytes:
    return to_row(
        ROW, result, batch_number=2, timestamp="2027-01-15T08:00:00.000000+00:00", model="m", config_digest="d"
    )


def types(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: types(item) for key, item in value.items()}
    return type(value).__name__


def no_constant(word: str) -> None:
    raise AssertionError(word)


async def test_f04_a_rich_and_a_poor_row_have_the_same_keys_order_and_types(lab: Any, tool_calls: Any) -> None:
    rich = await lab.run(tool_calls(reasoning="Look."), {"content": "done"})
    poor = PromptResult(Outcome.FAILED, Reason.IMAGE_UNAVAILABLE, "no such image")
    rows = [json.loads(write(result), parse_constant=no_constant) for result in (rich, poor)]
    assert [list(row) for row in rows] == [KEYS, KEYS]
    assert types(rows[0]) == types(rows[1])
    assert list(rows[0]["tool_stats"]) == list(rows[0]["tool_error_counts"]) == list(ALL_TOOLS)
    assert rows[0]["tool_stats"]["terminal"] == {"count": 1, "success": 1, "failure": 0}
    assert rows[1]["tool_stats"]["terminal"] == {"count": 0, "success": 0, "failure": 0}
    assert (rows[0]["completed"], rows[0]["reason"]) == (True, "")
    assert (rows[1]["completed"], rows[1]["reason"]) == (False, "ImageUnavailable")
    assert isinstance(json.loads(rows[0]["tools"]), list)


def test_a_row_says_how_long_it_waited_for_what_and_which_of_equal_rows_it_is() -> None:
    result = PromptResult(Outcome.COMPLETED, seconds=3, model_seconds=1.5, tool_seconds=1 / 3, sandbox_seconds=1)
    line = to_row(
        replace(ROW, key="0a1b-2-0"),
        result,
        batch_number=2,
        timestamp="2027-01-15T08:00:00.000000+00:00",
        model="m",
        config_digest="d",
        sampling='{"temperature":0.5}',
    )
    row = json.loads(line)
    assert row["seconds"] == {"total": 3.0, "model": 1.5, "tools": 0.333333, "sandbox": 1.0}
    assert all(isinstance(value, float) for value in row["seconds"].values())
    assert (row["occurrence"], row["sampling"]) == (2, '{"temperature":0.5}')


def test_a_row_is_one_line_that_starts_with_its_index() -> None:
    line = write(PromptResult(Outcome.COMPLETED, conversations=conversation(None, "a\nb\u2028c", [])))
    assert line.startswith(b'{"prompt_index":3,')
    assert line.count(b"\n") == 1
    assert line.endswith(b"}\n")


def test_failures_per_tool_are_counted_and_tools_nobody_knows_make_no_column() -> None:
    stats = {"patch": ToolStat(3, 1, 2), "my_tool": ToolStat(1, 1, 0)}
    row = json.loads(write(PromptResult(Outcome.COMPLETED, tool_stats=stats)))
    assert row["tool_error_counts"]["patch"] == 2
    assert "my_tool" not in row["tool_stats"]


def test_a04_half_surrogate_pairs_never_reach_the_file() -> None:
    result = PromptResult(
        Outcome.FAILED, Reason.INTERNAL, "\ud83d", conversations=[{"from": "human", "value": "\ud83d"}]
    )
    line = write(result)
    assert "\ufffd" in line.decode()
    assert b"\\ud" not in line


def test_f06_large_integers_stand_only_inside_json_strings() -> None:
    call = ToolCall("c1", "terminal", {"n": 2**70}, "", f'{{"n": {2**70}}}', {})
    turns = [Turn("", "", False, (call,), ["ok"])]
    row = json.loads(write(PromptResult(Outcome.COMPLETED, conversations=conversation(None, "p", turns))))
    assert json.loads(row["conversations"][1]["tool_calls"][0]["function"]["arguments"]) == {"n": 2**70}


def test_f05_roles_alternate_and_the_results_of_one_turn_are_one_tool_turn() -> None:
    pair = tuple(ToolCall(f"c{n}", "terminal", {}, "", "{}", {}) for n in range(2))
    saved = conversation("s", "p", [Turn("", "r", True, pair, ["a", "b"]), Turn("done", "", False)])
    assert [turn["from"] for turn in saved] == ["system", "human", "gpt", "tool", "gpt"]
    assert all(turn.keys() == {"from", "value", "tool_calls"} for turn in saved)
    assert [turn["tool_calls"] == [] for turn in saved] == [True, True, False, True, True]


@settings(deadline=None)
@given(st.lists(st.text() | st.sampled_from(["</tool_response>", "<tool_response>\n{}\n</tool_response>"]), min_size=1))
def test_tool_turns_can_be_taken_apart_again(results: list[str]) -> None:
    calls = [ToolCall(f"c{n}", "terminal", {}, "", "{}", {}) for n in range(len(results))]
    value = tool_value(calls, results)
    blocks = re.findall(r"<tool_response>\n(.*?)\n</tool_response>(?:\n|$)", value)
    assert [json.loads(block) for block in blocks] == split_tool_value(value)
    assert split_tool_value(value) == [
        {"tool_call_id": call.id, "name": "terminal", "content": result}
        for call, result in zip(calls, results, strict=True)
    ]


tagged = st.lists(
    st.text()
    | st.sampled_from(["<think>\n", "\n</think>\n", "</think>", "&lt;/think&gt;", "&amp;lt;/think&gt;", "\n", "&amp;"])
).map("".join)


@settings(deadline=None)
@given(tagged, tagged)
def test_reasoning_and_text_are_what_they_were(text: str, reasoning: str) -> None:
    assert split_gpt_value(gpt_value(text, reasoning)) == (text, reasoning)


def test_reasoning_is_readable_in_its_row() -> None:
    assert gpt_value("text", "") == "text"
    assert gpt_value("text", "a</think>b") == "<think>\na&lt;/think&gt;b\n</think>\ntext"
    assert gpt_value("", "&lt;/think&gt;") == "<think>\n&amp;lt;/think&gt;\n</think>\n"
    assert split_gpt_value("<think>\nnever closed") == ("<think>\nnever closed", "")
    assert split_gpt_value("<think>\n</think>\nthe reference's empty block") == ("the reference's empty block", "")
    assert split_gpt_value("<think>\nall of it\n</think>") == ("", "all of it")
    assert split_gpt_value("<think>\nx</think>y") == ("<think>\nx</think>y", "")
