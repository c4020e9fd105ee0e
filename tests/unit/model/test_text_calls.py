"""Calls that stand in the text: read by option only, and never guessed (b19)."""

from typing import Any

import pytest

from batchrun_runner.model.reply import Finish
from batchrun_runner.model.text_calls import take_calls

LS = {"command": "ls"}
HERMES = '<tool_call>{"name":"terminal","arguments":{"command":"ls"}}</tool_call>'


@pytest.mark.parametrize(
    ("text", "rest", "names"),
    [
        (HERMES, "", ["terminal"]),
        (f"I look.\n{HERMES}\n{HERMES}\nThat is all.", "I look.\nThat is all.", ["terminal", "terminal"]),
        ('<tool_call>\n{"name": "terminal", "parameters": {"command": "ls"}}\n</tool_call>', "", ["terminal"]),
        ('<function=terminal>{"command": "ls"}</function>', "", ["terminal"]),
        ('Now.\n[TOOL_CALLS] [{"name": "terminal", "arguments": {"command": "ls"}}]', "Now.", ["terminal"]),
    ],
)
def test_b19_known_forms_become_calls(text: str, rest: str, names: list[str]) -> None:
    found, calls = take_calls(text)
    assert found == rest
    assert [call["function"]["name"] for call in calls] == names
    assert all(call["function"]["arguments"] == LS for call in calls)


@pytest.mark.parametrize(
    "text",
    [
        "I look.\n<tool_call>",
        "<tool_call>{broken</tool_call>",
        "<tool_call>5</tool_call>",
        '<tool_call>{"arguments": {}}</tool_call>',
        '<tool_call>{"name": 5}</tool_call>',
        "<function=terminal><parameter=command>ls</parameter></function>",
        "[TOOL_CALLS] [",
        f"Such as `{HERMES}`.",
        "plain",
    ],
)
def test_b19_what_is_not_complete_and_strict_is_left_alone(text: str) -> None:
    assert take_calls(text) == (text, [])


async def test_b19_by_option_the_call_runs_and_goes_back_as_a_call(lab: Any) -> None:
    reply = await lab.ask({"content": f"I look.\n{HERMES}"}, calls_in_text="Parse")
    assert (reply.finish, reply.text) == (Finish.CALLS, "I look.")
    assert reply.calls[0].arguments == LS
    assert reply.message["content"] == "I look."
    assert reply.message["tool_calls"][0]["function"]["arguments"] == '{"command":"ls"}'


async def test_b19_by_option_half_a_call_is_still_unparsed(lab: Any) -> None:
    assert (await lab.ask({"content": "I look.\n<tool_call>"}, calls_in_text="Parse")).finish is Finish.UNPARSED_CALL
