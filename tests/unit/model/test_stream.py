"""Streamed replies: the same normal form, and whatever is incomplete is a broken transport (b15)."""

import json
from typing import Any

import pytest

from batchrun_api.outcomes import Reason
from batchrun_runner.model.errors import FailPrompt
from batchrun_runner.model.reply import Reply
from batchrun_runner.model.stream import BrokenStream, is_stream, merge

OK = {"content": "fine"}
TURNS: list[dict[str, Any]] = [
    {"content": "A long enough answer, with ünïcode 🍸.", "reasoning": "I think about it."},
    {"content": None, "tool_calls": [{"name": "terminal", "arguments": {"command": "echo a long command"}}]},
    {
        "content": "Both.",
        "tool_calls": [
            {"name": "terminal", "arguments": {"command": "ls"}, "id": "a"},
            {"name": "read_file", "arguments": {"path": "x"}, "id": "b"},
        ],
    },
    {"content": "cut off here", "finish_reason": "length"},
    {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "T"}]}, {"type": "text", "text": "A"}]},
    {"content": "A", "message": {"reasoning_details": [{"type": "reasoning.text", "text": "T", "signature": "s"}]}},
    {"content": None},
    {"content": "</think>", "usage": None},
    {"content": None, "message": {"tool_calls": [{"function": {"name": "terminal", "arguments": {"command": "ls"}}}]}},
]


def normal(reply: Reply) -> Any:
    message = {key: value or None for key, value in reply.message.items()}
    return (reply.text, reply.reasoning, reply.calls, reply.finish, reply.usage, message)


@pytest.mark.parametrize("turn", TURNS, ids=range(len(TURNS)))
async def test_a_streamed_reply_has_the_same_normal_form(lab: Any, turn: dict[str, Any]) -> None:
    whole = await lab.ask(turn)
    streamed = await lab.ask(turn, stream=True)
    assert normal(streamed) == normal(whole)
    assert lab.sent[1] == {**lab.sent[0], "stream": True, "stream_options": {"include_usage": True}}


@pytest.mark.parametrize("fault", [{"stream_fault": "silent"}, {"stream_fault": "error"}, {"fault": "cut"}])
@pytest.mark.parametrize("turn", TURNS[:3], ids=["text", "arguments", "calls"])
async def test_b15_a_stream_that_ends_in_mid_answer_is_asked_again_and_its_half_call_is_none(
    lab: Any, turn: dict[str, Any], fault: dict[str, str]
) -> None:
    assert (await lab.ask([{**turn, **fault}, OK], stream=True)).text == "fine"
    with pytest.raises(FailPrompt) as raised:
        await lab.ask({**turn, **fault}, stream=True)
    assert raised.value.reason is Reason.PROVIDER_ERROR
    assert "8 attempts" in raised.value.message


async def test_b14_a_dripping_stream_ends_at_the_total_deadline(lab: Any) -> None:
    assert (await lab.ask([{"fault": "drip"}, OK], stream=True, timeout_seconds=1)).text == "fine"


async def test_a_rate_limit_of_a_stream_is_waited_out(lab: Any) -> None:
    assert (await lab.ask([{"status": 429, "headers": {"Retry-After": "3"}}, OK], stream=True)).text == "fine"
    assert lab.waits[0] >= 3


async def test_a_server_that_does_not_stream_though_asked_is_read_all_the_same(lab: Any) -> None:
    body = {"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]}
    assert (await lab.ask({"body": body}, stream=True)).text == "whole"


async def test_a_server_that_streams_though_not_asked_is_read_all_the_same(lab: Any) -> None:
    assert (
        await lab.ask({"body": sse({"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]})})
    ).text == "x"


def sse(*events: Any, end: str = "data: [DONE]\n\n") -> str:
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events) + end


def delta(**fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields}]}


def merged(*deltas: dict[str, Any]) -> Any:
    return merge(sse(*deltas).encode())["choices"][0]["message"]


def call(index: int | None = None, **fields: Any) -> dict[str, Any]:
    function = {key: fields.pop(key) for key in ("name", "arguments") if key in fields}
    return {**({} if index is None else {"index": index}), **fields, "function": function}


T, U = call(0, id="a", name="t", arguments="{}"), call(0, id="b", name="u", arguments="{}")


@pytest.mark.parametrize(
    ("deltas", "calls"),
    [
        (
            [[call(0, id="a", name="t", arguments="")], [call(0, arguments='{"x')], [call(0, arguments='":1}')]],
            [("t", '{"x":1}')],
        ),
        ([[T], [U]], [("t", "{}"), ("u", "{}")]),
        ([[{**T, "index": None}, {**U, "index": None}]], [("t", "{}"), ("u", "{}")]),
        ([[call(0, id="a", name="t", arguments="{")], [call(0, id="a", name="t", arguments="}")]], [("t", "{}")]),
        ([[call(0, id="a", name="ter")], [call(0, name="minal", arguments="{}")]], [("terminal", "{}")]),
        ([[{**U, "index": 1}], [T]], [("u", "{}"), ("t", "{}")]),
    ],
)
def test_pieces_of_calls_are_put_together_whatever_their_index(deltas: Any, calls: Any) -> None:
    message = merged(*(delta(tool_calls=piece) for piece in deltas))
    assert [(made["function"]["name"], made["function"]["arguments"]) for made in message["tool_calls"]] == calls


def test_pieces_of_reasoning_details_are_put_together_and_keep_their_signature() -> None:
    pieces = [{"type": "reasoning.text", "index": 0, "text": word} for word in ("I ", "see")]
    last = {"type": "reasoning.text", "index": 0, "signature": "s"}
    other = {"type": "reasoning.encrypted", "index": 1, "data": "abc"}
    message = merged(*(delta(reasoning_details=[piece]) for piece in [*pieces, last, other]))
    assert message["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "text": "I see", "signature": "s"},
        other,
    ]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_comments_other_fields_and_a_missing_last_line_do_not_matter(line_end: str) -> None:
    lines = [
        ": hello",
        "event: x",
        "id: 5",
        'data: {"choices": [{"delta": {"content": "a"},',
        'data: "finish_reason": "stop"}]}',
    ]
    content = line_end.join(lines).encode()
    assert is_stream({}, content)
    assert merge(content)["choices"][0]["message"] == {"content": "a"}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "data: [DONE]\n\n",
        ": only a comment\n\n",
        sse(delta(content="a"), end=""),
        "data: {broken\n\n",
        "data: 5\n\n",
    ],
)
def test_what_is_no_whole_reply_is_broken(content: str) -> None:
    with pytest.raises(BrokenStream):
        merge(content.encode())


def test_an_end_marker_without_a_finish_reason_is_an_end() -> None:
    assert merged(delta(content="a"))["content"] == "a"


def test_usage_after_the_finish_reason_is_read() -> None:
    usage = {"prompt_tokens": 1}
    body = merge(
        sse(
            delta(content="a"), {"choices": [{"delta": {}, "finish_reason": "stop"}]}, {"choices": [], "usage": usage}
        ).encode()
    )
    assert body["usage"] == usage
