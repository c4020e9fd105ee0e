"""Streamed replies: the same normal form, and whatever is incomplete is a broken transport (b15)."""

import json
from typing import Any

import pytest

from batchrun_api.outcomes import Reason
from batchrun_runner.model.errors import FailPrompt
from batchrun_runner.model.reply import Finish, Reply
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
        ([[call(name="t", arguments="{}")], [call(name="u", arguments="{}")]], [("t", "{}"), ("u", "{}")]),
        ([[call(name="t", arguments="{}")], [call(name="t", arguments="{}")]], [("t", "{}"), ("t", "{}")]),
        ([[call(name="t", arguments="{")], [call(name="t", arguments="}")]], [("t", "{}")]),
        ([[call(name="t", arguments="{}")], [call(name="t", arguments="")]], [("t", "{}")]),
        ([[call(0, name="t", arguments="{}")], [call(0, name="u", arguments="{}")]], [("t", "{}"), ("u", "{}")]),
        (
            [
                [call(id="a", name="t", arguments="{"), call(id="b", name="u", arguments="{")],
                [call(id="b", arguments="}")],
                [call(id="a", arguments="}")],
            ],
            [("t", "{}"), ("u", "{}")],
        ),
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


def test_a_part_with_another_id_is_another_part_though_the_index_is_the_same() -> None:
    blocks = [{"type": "reasoning.encrypted", "index": 0, "id": name, "data": name} for name in ("a", "b")]
    later = {"type": "reasoning.encrypted", "index": 0, "id": "", "format": "f"}
    message = merged(*(delta(reasoning_details=[piece]) for piece in [*blocks, later]))
    assert message["reasoning_details"] == [blocks[0], {**blocks[1], "format": "f"}]


def thinking(text: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        (["", [thinking("I ")], [thinking("see")], "The ", "answer"], [thinking("I see"), text("The answer")]),
        (
            [[thinking("I ")], [thinking("see")], [text("The ")], [text("answer")]],
            [thinking("I see"), text("The answer")],
        ),
        (["Hello ", [text("world")]], [text("Hello world")]),
        ([text("Hello "), text("world")], [text("Hello world")]),
        ([None, [text("a")], None, ""], [text("a")]),
        ([[text("a")], 5], 5),
    ],
)
def test_content_that_goes_on_in_another_form_loses_nothing(pieces: list[Any], whole: Any) -> None:
    assert merged(*(delta(content=piece) for piece in pieces)) == {"content": whole}


def test_reasoning_in_pieces_of_an_object_is_put_together() -> None:
    assert merged(*(delta(reasoning={"content": word}) for word in ("I ", "see"))) == {
        "reasoning": {"content": "I see"}
    }


def test_pieces_of_a_legacy_function_call_are_put_together() -> None:
    pieces = [{"name": "terminal", "arguments": ""}, {"arguments": '{"command":'}, {"arguments": '"ls"}'}, None]
    message = merged(*(delta(function_call=piece) for piece in pieces))
    assert message == {"function_call": {"name": "terminal", "arguments": '{"command":"ls"}'}}


def test_an_empty_id_in_a_later_piece_does_not_erase_the_id() -> None:
    [made] = merged(delta(tool_calls=[T]), delta(tool_calls=[{"index": 0, "id": "", "function": {}}]))["tool_calls"]
    assert made["id"] == "a"


def test_a_single_call_that_is_no_list_is_one_call() -> None:
    assert merged(delta(tool_calls=T))["tool_calls"] == [{"id": "a", "function": {"name": "t", "arguments": "{}"}}]


async def test_a_function_that_is_a_string_makes_an_invalid_call_as_without_streaming(lab: Any) -> None:
    pieces = [{"index": 0, "id": "c1", "function": "terminal"}, call(0, arguments="{}")]
    reply = await lab.ask({"body": sse(*(delta(tool_calls=[piece]) for piece in pieces))}, stream=True)
    assert [(made.id, made.name) for made in reply.calls] == [("c1", "")]


@pytest.mark.parametrize("choices", [5, True, "x", {}, [5], [None]])
def test_choices_that_are_no_list_of_objects_are_passed_over(choices: Any) -> None:
    assert merged({"choices": choices}, delta(content="a")) == {"content": "a"}


def test_parts_that_are_nested_too_deeply_are_left_for_the_reader_to_refuse() -> None:
    deep: Any = "x"
    for _ in range(300):
        deep = [{"type": "thinking", "thinking": deep}]
    message = merged(delta(content=deep), delta(content=deep), delta(content="a"))
    assert message["content"][2] == text("a")


async def test_a_surrogate_pair_that_two_events_share_is_one_character(lab: Any) -> None:
    halves = sse(delta(content="x\ud83d"), delta(content="\ude00y \ud83d"))
    assert (await lab.ask({"body": halves}, stream=True)).text == "x\U0001f600y \ufffd"


def test_a_byte_order_mark_costs_no_event() -> None:
    content = b"\xef\xbb\xbf" + sse(delta(content="first "), delta(content="second")).encode()
    assert is_stream({}, content)
    assert merge(content)["choices"][0]["message"] == {"content": "first second"}


@pytest.mark.parametrize(
    ("finish_reason", "finish"), [("content_filter", Finish.FILTERED), ("stop", Finish.EMPTY), ("length", Finish.CUT)]
)
async def test_a_stream_of_nothing_but_a_finish_reason_is_a_reply(lab: Any, finish_reason: str, finish: Finish) -> None:
    only = {"choices": [{"index": 0, "delta": {}, "finish_reason": finish_reason}]}
    assert (await lab.ask({"body": sse(only)}, stream=True)).finish is finish
    assert lab.waits == []


@pytest.mark.parametrize(
    "body",
    [
        json.dumps({"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]}, indent=1),
        '{"choices": []}',
    ],
)
def test_a_plain_object_is_no_stream_whatever_its_header_says(body: str) -> None:
    assert not is_stream({"content-type": "text/event-stream"}, body.encode())


@pytest.mark.parametrize("content", ["id: 5\ndata: {}\n\n", "retry: 1\r\n\r\n", ":\n\n", "odd\ndata: {}\n\n"])
def test_a_stream_may_begin_with_any_field_where_the_header_says_so(content: str) -> None:
    assert is_stream({"content-type": "text/event-stream; charset=utf-8"}, content.encode())


@pytest.mark.parametrize(
    ("events", "usage"),
    [
        ([{"choices": [{"delta": {"content": "a"}, "usage": {"prompt_tokens": 3}}]}], {"prompt_tokens": 3}),
        (
            [
                {"choices": [{"delta": {"content": "a"}, "usage": {"prompt_tokens": 3}}]},
                {"choices": [], "usage": {"prompt_tokens": 4}},
            ],
            {"prompt_tokens": 4},
        ),
        ([delta(content="a")], None),
    ],
)
def test_usage_in_the_choice_is_read_where_there_is_no_other(events: list[Any], usage: Any) -> None:
    assert merge(sse(*events).encode())["usage"] == usage


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
