"""The agent loop over real HTTP. Each test is named after the behaviour, or the fault that it guards against."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from batchrun_api.outcomes import Outcome, Reason
from batchrun_api.spec.agent import PrefillMessage
from batchrun_runner.agent.errors import PromptFailed
from batchrun_runner.agent.loop import Agent
from batchrun_runner.agent.talk import CLOSING
from batchrun_runner.model.calls import ToolCall
from batchrun_runner.model.errors import StopRun
from batchrun_runner.model.reply import Finish, read_reply
from batchrun_runner.records import PromptResult, PromptRow, ToolStat, Usage

DONE = {"content": "done", "reasoning": "I am sure."}


def roles(result: PromptResult) -> list[str]:
    return [turn["from"] for turn in result.conversations]


def tool_messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    return [message for message in body["messages"] if message["role"] == "tool"]


def every_call_has_one_result_right_after_it(messages: list[dict[str, Any]]) -> None:
    for number, message in enumerate(messages):
        ids = [call["id"] for call in message.get("tool_calls", ())]
        answers = messages[number + 1 : number + 1 + len(ids)]
        assert [answer.get("tool_call_id") for answer in answers] == ids


async def test_a_prompt_is_worked_on_until_the_answer(lab: Any, tool_calls: Any) -> None:
    result = await lab.run(tool_calls(reasoning="Look."), DONE)
    assert (result.outcome, result.reason, result.partial) == (Outcome.COMPLETED, None, False)
    assert roles(result) == ["human", "gpt", "tool", "gpt"]
    assert result.conversations[-1]["value"] == "<think>\nI am sure.\n</think>\ndone"
    assert lab.toolbox.executed == [("terminal", {"command": "ls"})]
    assert result.tool_stats == {"terminal": ToolStat(1, 1, 0)}
    assert (result.api_calls, result.assistant_turns, result.turns_with_reasoning) == (2, 2, 2)
    assert result.usage.total_tokens > 0
    assert result.toolsets == ("terminal", "file")
    assert [tool["function"]["name"] for tool in json.loads(result.tools)] == ["terminal", "read_file"]


async def test_the_demo_model_needs_no_script(lab: Any) -> None:
    result = await lab.run()
    assert result.outcome is Outcome.COMPLETED
    assert '{"output":"ok"}' in result.conversations[-1]["value"]


async def test_a_command_that_exits_non_zero_is_no_failure_but_an_error_is(
    lab: Any, tool_calls: Any, one_call: Any, said: Any
) -> None:
    lab.toolbox.said = [said('{"exit_code":1}'), said('{"error":"no such file"}', failed=True)]
    result = await lab.run(tool_calls(one_call("false"), one_call("x", "read_file")), DONE)
    assert result.tool_stats == {"terminal": ToolStat(1, 1, 0), "read_file": ToolStat(1, 0, 1)}
    assert result.invalid_tool_calls == 0


# Limits.


async def test_an_answer_in_the_last_turn_is_completed(lab: Any, tool_calls: Any) -> None:
    result = await lab.run(tool_calls(), tool_calls(), DONE, max_turns=3)
    assert (result.outcome, result.api_calls) == (Outcome.COMPLETED, 3)


async def test_after_the_last_turn_one_closing_call_without_tools_is_made(lab: Any, tool_calls: Any) -> None:
    result = await lab.run(tool_calls(), tool_calls(), {"content": "so far"}, max_turns=2)
    assert (result.outcome, result.reason) == (Outcome.TRUNCATED, Reason.MAX_TURNS)
    assert (result.api_calls, result.partial) == (3, False)
    assert ["tools" in body for body in lab.sent] == [True, True, False]
    assert lab.sent[-1]["messages"][-1] == {"role": "user", "content": CLOSING}
    assert roles(result) == ["human", "gpt", "tool", "gpt", "tool", "gpt"]
    assert result.conversations[-1]["value"] == "so far"
    assert CLOSING not in json.dumps(result.conversations)


async def test_calls_in_the_closing_turn_are_neither_run_nor_kept(lab: Any, tool_calls: Any) -> None:
    result = await lab.run(tool_calls(), tool_calls(content="more"), max_turns=1)
    assert len(lab.toolbox.executed) == 1
    assert result.conversations[-1] == {"from": "gpt", "value": "more", "tool_calls": []}


async def test_a_closing_call_that_fails_leaves_the_row_truncated(lab: Any, tool_calls: Any) -> None:
    result = await lab.run(tool_calls(), {"status": 400}, max_turns=1)
    assert (result.outcome, result.reason) == (Outcome.TRUNCATED, Reason.MAX_TURNS)
    assert "InvalidRequest" in result.message


async def test_the_limit_of_tokens_ends_it_before_the_next_call(lab: Any, tool_calls: Any) -> None:
    usage = {"prompt_tokens": 90, "completion_tokens": 10}
    result = await lab.run(tool_calls(usage=usage), max_total_tokens=150)
    assert (result.outcome, result.reason) == (Outcome.TRUNCATED, Reason.TOKEN_LIMIT)
    assert (result.api_calls, result.usage.total_tokens) == (2, 200)
    assert roles(result)[-1] == "tool"


async def test_the_time_limit_ends_a_hanging_call_and_keeps_what_was_said(lab: Any, tool_calls: Any) -> None:
    result = await lab.run(tool_calls(), {"fault": "hang"}, timeout_seconds=1.0)
    assert (result.outcome, result.reason) == (Outcome.TRUNCATED, Reason.TIME_LIMIT)
    assert roles(result) == ["human", "gpt", "tool"]


async def test_a_server_that_never_answers_within_the_time_limit_is_a_failure_that_runs_again(lab: Any) -> None:
    result = await lab.run({"fault": "hang"}, timeout_seconds=1.0)
    assert (result.outcome, result.reason, result.api_calls) == (Outcome.FAILED, Reason.TIMEOUT, 0)


async def test_a_call_that_the_time_limit_cut_off_still_has_a_result(
    lab: Any, tool_calls: Any, one_call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(name: str, arguments: dict[str, Any]) -> Any:
        await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(lab.toolbox, "execute", hang)
    result = await lab.run(tool_calls(one_call(), one_call()), timeout_seconds=1.0)
    assert result.reason is Reason.TIME_LIMIT
    assert result.conversations[-1]["value"].count("not run or not finished") == 2
    assert result.tool_stats == {}


async def test_a_timeout_of_a_tool_is_not_taken_for_the_prompts_own(lab: Any, tool_calls: Any) -> None:
    lab.toolbox.said = [TimeoutError("a bug in a tool")]
    with pytest.raises(TimeoutError, match="a bug"):
        await lab.run(tool_calls())


# Replies that are of no use.


@pytest.mark.parametrize("empty", [{"content": None}, {"content": "", "finish_reason": "tool_calls"}])
async def test_b10_empty_replies_are_asked_again_and_then_end_it_as_partial(lab: Any, empty: dict[str, Any]) -> None:
    result = await lab.run(empty)
    assert (result.outcome, result.reason, result.partial) == (Outcome.FAILED, Reason.EMPTY_REPLY, True)
    assert result.api_calls == 3
    assert len({json.dumps(body) for body in lab.sent}) == 1


async def test_b10_one_empty_reply_in_between_does_no_harm(lab: Any, tool_calls: Any) -> None:
    result = await lab.run(tool_calls(), [{"content": None}, {"content": None}, tool_calls()], DONE)
    assert (result.outcome, result.api_calls) == (Outcome.COMPLETED, 5)
    assert roles(result) == ["human", "gpt", "tool", "gpt", "tool", "gpt"]


async def test_b09_a_reply_of_nothing_but_thinking_is_kept_and_not_completed(lab: Any) -> None:
    result = await lab.run({"content": "<think>thought", "finish_reason": "length"})
    assert (result.outcome, result.reason, result.partial) == (Outcome.FAILED, Reason.TRUNCATED_REPLY, True)
    assert result.conversations[-1]["value"] == "<think>\nthought\n</think>\n"
    assert result.api_calls == 1


async def test_b11_a_filtered_reply_ends_it_at_once(lab: Any) -> None:
    result = await lab.run({"content": None, "finish_reason": "content_filter"})
    assert (result.outcome, result.reason, result.api_calls) == (Outcome.FAILED, Reason.CONTENT_FILTERED, 1)


async def test_b19_a_call_in_the_text_is_never_a_completed_answer(lab: Any) -> None:
    text = '<tool_call>{"name":"terminal"}</tool_call>'
    result = await lab.run({"content": text})
    assert (result.outcome, result.reason, result.partial) == (Outcome.FAILED, Reason.UNPARSED_TOOL_CALL, True)
    assert result.conversations[-1]["value"] == text
    assert lab.toolbox.executed == []


# Calls that cannot be run.


async def test_b01_b17_b18_every_call_has_one_result_in_order_whatever_becomes_of_it(
    lab: Any, tool_calls: Any, one_call: Any, said: Any
) -> None:
    lab.toolbox.said = [said("fine"), said('{"error":"timed out"}', failed=True)]
    bad = {"name": "terminal", "arguments": '{"command": "echo "hi""}'}
    result = await lab.run(
        tool_calls(one_call("a"), one_call("b"), one_call(name="generic_command"), bad, one_call(name="web_search")),
        DONE,
    )
    assert result.outcome is Outcome.COMPLETED
    every_call_has_one_result_right_after_it(lab.sent[-1]["messages"])
    answers = [message["content"] for message in tool_messages(lab.sent[-1])]
    assert answers[0] == "fine"
    assert "timed out" in answers[1]
    assert "unknown tool 'generic_command'; the tools are: terminal, read_file" in answers[2]
    assert "not valid JSON" in answers[3]
    assert [arguments["command"] for _, arguments in lab.toolbox.executed] == ["a", "b"]
    assert result.tool_stats == {"terminal": ToolStat(3, 1, 2), "web_search": ToolStat(1, 0, 1)}
    assert result.invalid_tool_calls == 3


async def test_b01_turns_with_nothing_but_invalid_calls_are_bounded(lab: Any, tool_calls: Any, one_call: Any) -> None:
    result = await lab.run(tool_calls(one_call(name="nope")))
    assert (result.outcome, result.reason, result.partial) == (Outcome.FAILED, Reason.INVALID_TOOL_CALLS, True)
    assert (result.api_calls, result.invalid_tool_calls) == (3, 3)
    assert roles(result)[-1] == "tool"


async def test_b01_a_good_call_in_between_starts_the_count_again(lab: Any, tool_calls: Any, one_call: Any) -> None:
    bad = tool_calls(one_call(name="nope"))
    result = await lab.run(bad, bad, tool_calls(), bad, bad, DONE)
    assert (result.outcome, result.invalid_tool_calls) == (Outcome.COMPLETED, 4)


async def test_b04_calls_with_equal_ids_both_run_under_ids_of_their_own(
    lab: Any, tool_calls: Any, one_call: Any
) -> None:
    result = await lab.run(tool_calls(one_call("a", id="edit:0"), one_call("b", id="edit:0")), DONE)
    assert len(lab.toolbox.executed) == 2
    every_call_has_one_result_right_after_it(lab.sent[-1]["messages"])
    ids = [call["id"] for call in result.conversations[1]["tool_calls"]]
    assert len(set(ids)) == 2
    assert all(f'"tool_call_id":"{call_id}"' in result.conversations[2]["value"] for call_id in ids)


async def test_a04_half_surrogate_pairs_in_tool_output_are_replaced(lab: Any, tool_calls: Any, said: Any) -> None:
    lab.toolbox.said = [said("a\ud83db")]
    result = await lab.run(tool_calls(), DONE)
    assert tool_messages(lab.sent[-1])[0]["content"] == "a\ufffdb"
    assert "a\ufffdb" in result.conversations[2]["value"]


# Faults from outside.


@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        ({"status": 400}, Reason.INVALID_REQUEST),
        ({"status": 503}, Reason.PROVIDER_ERROR),
        ({"status": 400, "body": {"error": {"message": "prompt is too long"}}}, Reason.CONTEXT_LENGTH_EXCEEDED),
    ],
)
async def test_a_failed_model_call_ends_the_prompt_with_what_was_said(
    lab: Any, tool_calls: Any, turn: dict[str, Any], reason: Reason
) -> None:
    result = await lab.run(tool_calls(), turn)
    assert (result.outcome, result.reason, result.partial) == (Outcome.FAILED, reason, False)
    assert roles(result) == ["human", "gpt", "tool"]
    assert result.message


@pytest.mark.parametrize(("status", "reason"), [(401, Reason.INVALID_CREDENTIALS), (404, Reason.MODEL_NOT_FOUND)])
async def test_a_wrong_key_or_an_unknown_model_stops_the_run(lab: Any, status: int, reason: Reason) -> None:
    with pytest.raises(StopRun) as stopped:
        await lab.run({"status": status})
    assert stopped.value.reason is reason


async def test_a_lost_sandbox_fails_the_prompt_and_is_no_failure_of_the_tool(
    lab: Any, tool_calls: Any, one_call: Any, said: Any, lost: Exception
) -> None:
    lab.toolbox.said = [said("fine"), lost]
    result = await lab.run(tool_calls(one_call("a"), one_call("b"), one_call("c")))
    assert (result.outcome, result.reason) == (Outcome.FAILED, Reason.SANDBOX_LOST)
    assert result.message == "killed for memory"
    assert len(lab.toolbox.executed) == 2
    assert result.tool_stats == {"terminal": ToolStat(1, 1, 0)}
    assert result.conversations[-1]["value"].count("<tool_response>") == 3


# What is sent and what is kept.


async def test_the_ephemeral_prompt_and_prefill_are_sent_and_never_kept(lab: Any, tool_calls: Any) -> None:
    lab.system_prompt, lab.ephemeral_system_prompt = "Be brief.", "You secretly are a pirate."
    lab.prefill = (
        PrefillMessage(role="user", content="An example?"),
        PrefillMessage(role="assistant", content="An example."),
    )
    result = await lab.run(tool_calls(), DONE)
    for body in lab.sent:
        assert [message["role"] for message in body["messages"][:4]] == ["system", "user", "assistant", "user"]
        assert body["messages"][0]["content"] == "Be brief.\n\nYou secretly are a pirate."
    assert result.conversations[0] == {"from": "system", "value": "Be brief.", "tool_calls": []}
    assert roles(result) == ["system", "human", "gpt", "tool", "gpt"]
    assert "pirate" not in repr(result)
    assert "example" not in repr(result)


async def test_with_only_an_ephemeral_prompt_the_kept_conversation_starts_with_the_human(lab: Any) -> None:
    lab.ephemeral_system_prompt = "You secretly are a pirate."
    result = await lab.run(DONE)
    assert lab.sent[0]["messages"][0]["role"] == "system"
    assert roles(result) == ["human", "gpt"]


async def test_without_tools_none_are_offered(lab: Any) -> None:
    lab.toolbox.names = ()
    result = await lab.run(DONE)
    assert "tools" not in lab.sent[0]
    assert (result.outcome, result.tools) == (Outcome.COMPLETED, "[]")


async def test_reasoning_is_sent_back_under_its_name(lab: Any, tool_calls: Any) -> None:
    await lab.run(tool_calls(reasoning="Look."), DONE)
    assert lab.sent[-1]["messages"][1]["reasoning"] == "Look."


async def test_b12_replies_without_usage_are_counted(lab: Any, tool_calls: Any) -> None:
    result = await lab.run(tool_calls(omit=["usage"]), {**DONE, "usage": {"prompt_tokens": 5}})
    assert (result.usage.calls_without_usage, result.usage.total_tokens) == (1, 5)


async def test_what_models_of_tools_use_counts_for_the_row_and_its_limit(lab: Any, tool_calls: Any) -> None:
    lab.toolbox.used = [Usage(prompt_tokens=100, completion_tokens=50, calls_without_usage=1)]
    result = await lab.run(tool_calls(usage={"prompt_tokens": 5, "completion_tokens": 5}), DONE, max_total_tokens=160)

    assert (result.outcome, result.reason) == (Outcome.TRUNCATED, Reason.TOKEN_LIMIT)
    assert (result.api_calls, result.usage.total_tokens, result.usage.calls_without_usage) == (1, 160, 1)


async def test_what_models_of_tools_used_counts_also_where_the_tool_ends_the_prompt(
    lab: Any, tool_calls: Any, lost: PromptFailed
) -> None:
    lab.toolbox.said = [lost]
    lab.toolbox.used = [Usage(prompt_tokens=100)]
    result = await lab.run(tool_calls(usage={"prompt_tokens": 5, "completion_tokens": 5}))

    assert (result.outcome, result.usage.total_tokens) == (Outcome.FAILED, 110)


async def test_reasoning_that_shows_only_in_the_usage_counts(lab: Any) -> None:
    usage = {"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 4}}
    result = await lab.run({"content": "done", "usage": usage})
    assert (result.assistant_turns, result.turns_with_reasoning) == (1, 1)


class Ticking:
    """A clock that a scripted model and its tool move on."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_time_is_counted_for_the_model_and_for_tools_also_when_an_error_ends_it(said: Any) -> None:
    clock = Ticking()
    call = ToolCall("c1", "terminal", {"command": "ls"}, "", '{"command":"ls"}', {})
    asked = read_reply({"choices": [{"message": {"content": "hm"}}]})

    class SlowModel:
        replies = [
            replace(asked, calls=(call,), finish=Finish.CALLS),
            replace(asked, calls=(call,), finish=Finish.CALLS),
        ]

        async def query(self, *_: Any, **__: Any) -> Any:
            clock.now += 10
            return self.replies.pop(0)

    class SlowToolbox:
        schemas = [{"type": "function", "function": {"name": "terminal", "parameters": {}}}]
        calls = 0

        async def execute(self, *_: Any) -> Any:
            clock.now += 3
            self.calls += 1
            if self.calls == 2:
                raise PromptFailed(Reason.SANDBOX_LOST, "gone")
            return said("ok")

        def take_usage(self) -> Usage:
            return Usage()

    result = await Agent(SlowModel(), monotonic=clock).run(PromptRow(0, "k-0-0", "p"), SlowToolbox())
    assert (result.outcome, result.reason) == (Outcome.FAILED, Reason.SANDBOX_LOST)
    assert (result.seconds, result.model_seconds, result.tool_seconds) == (26.0, 20.0, 6.0)
