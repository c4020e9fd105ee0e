"""What servers really answer, and the one form that the loop gets. Each test is named after the fault."""

import json
from typing import Any

import pytest

from batchrun_runner.model.calls import UNPARSED_KEY
from batchrun_runner.model.reply import Finish, Reply
from batchrun_runner.model.thinking import Source, split_tags
from batchrun_runner.records import Usage


def call(arguments: Any, name: str = "terminal", **more: Any) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def message(**fields: Any) -> dict[str, Any]:
    return {"message": fields}


def calls_message(*calls: Any, **fields: Any) -> dict[str, Any]:
    return message(content=None, tool_calls=list(calls), **fields)


async def next_turn_is_accepted(lab: Any, reply: Reply) -> None:
    """Send the reply back to a strict server, with a result for each call."""
    results = [{"role": "tool", "tool_call_id": call.id, "content": "ok"} for call in reply.calls]
    history = [{"role": "user", "content": "Do it."}, reply.message, *results, {"role": "user", "content": "Go on."}]
    assert (await lab.ask({"content": "fine"}, messages=history)).text == "fine"


async def test_b01_arguments_that_are_no_json_are_not_run_and_are_resent_as_json(lab: Any) -> None:
    raw = '{"command": "echo "hi""}'
    reply = await lab.ask(calls_message(call(raw)))
    (bad,) = reply.calls
    assert bad.arguments is None
    assert "not valid JSON" in bad.error
    assert json.loads(bad.arguments_json) == {UNPARSED_KEY: raw}
    await next_turn_is_accepted(lab, reply)


@pytest.mark.parametrize(
    ("arguments", "parsed"),
    [
        ({"command": "ls"}, {"command": "ls"}),
        (json.dumps('{"command":"ls"}'), {"command": "ls"}),
        ("", None),
        ("null", None),
        ("[]", None),
        ('"ls"', None),
        ([], None),
        (5, None),
    ],
)
async def test_b02_arguments_in_odd_forms_run_once_or_get_an_error(lab: Any, arguments: Any, parsed: Any) -> None:
    reply = await lab.ask(calls_message(call(arguments)))
    assert reply.finish is Finish.CALLS
    assert reply.calls[0].arguments == parsed
    assert bool(reply.calls[0].error) == (parsed is None)
    stored = reply.calls[0].as_stored()["function"]["arguments"]
    assert isinstance(json.loads(stored), dict)
    if parsed is not None:
        assert json.loads(stored) == parsed
    await next_turn_is_accepted(lab, reply)


@pytest.mark.parametrize("arguments", ["", None, "  ", "{}"])
async def test_b02_empty_arguments_mean_none_where_none_is_required(lab: Any, arguments: Any) -> None:
    reply = await lab.ask(calls_message(call(arguments, name="list")))
    assert reply.calls[0].arguments == {}
    await next_turn_is_accepted(lab, reply)


async def test_b03_raw_control_characters_are_accepted_and_resent_escaped(lab: Any) -> None:
    reply = await lab.ask(calls_message(call('{"command": "a\n\tb"}')))
    assert reply.calls[0].arguments == {"command": "a\n\tb"}
    assert json.loads(reply.calls[0].arguments_json) == {"command": "a\n\tb"}


@pytest.mark.parametrize("bad", [r'{"command": "C:\Users"}', r'{"command": "\u12"}'])
async def test_b03_bad_escapes_are_an_error_and_never_an_empty_object(lab: Any, bad: str) -> None:
    reply = await lab.ask(calls_message(call(bad)))
    assert reply.calls[0].arguments is None
    assert "escape" in reply.calls[0].error
    assert json.loads(reply.calls[0].arguments_json) == {UNPARSED_KEY: bad}


async def test_b03_an_escaped_emoji_is_one_character(lab: Any) -> None:
    reply = await lab.ask(calls_message(call(r'{"command": "\ud83c\udf78"}')))
    assert reply.calls[0].arguments == {"command": "\U0001f378"}
    assert json.loads(reply.calls[0].arguments_json) == {"command": "\U0001f378"}


async def test_b04_missing_or_equal_call_ids_become_unique(lab: Any) -> None:
    no_id = call("{}", name="list")
    del no_id["id"]
    ids = ["", None, "edit:0", "edit:0", 5]
    reply = await lab.ask(calls_message(no_id, *({**call("{}", name="list"), "id": given} for given in ids)))
    found = [call.id for call in reply.calls]
    assert len(set(found)) == len(found) == 6
    assert all(found)
    assert "edit:0" in found
    assert [sent["id"] for sent in reply.message["tool_calls"]] == found


async def test_b04_ids_that_an_earlier_turn_used_are_replaced(lab: Any) -> None:
    earlier = {"role": "assistant", "content": None, "tool_calls": [call("{}", name="list")]}
    history = [{"role": "user", "content": "x"}, earlier, {"role": "tool", "tool_call_id": "c1", "content": "ok"}]
    reply = await lab.ask({}, calls_message(call("{}", name="list")), messages=history)
    assert reply.calls[0].id not in {"", "c1"}


@pytest.mark.parametrize("none", [[], None])
async def test_b05_an_empty_list_of_calls_is_left_out_when_resent(lab: Any, none: Any) -> None:
    reply = await lab.ask(message(content="ok", tool_calls=none))
    assert reply.calls == ()
    assert "tool_calls" not in reply.message
    await next_turn_is_accepted(lab, reply)


async def test_b07_content_in_parts_becomes_text_and_reasoning(lab: Any) -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "T"}]},
        {"type": "text", "text": "A"},
        {"type": "hologram"},
    ]
    reply = await lab.ask(message(content=parts))
    assert (reply.text, reply.reasoning, reply.reasoning_source) == ("A", "T", Source.PARTS)
    assert reply.has_reasoning
    assert reply.notes == ("hologram",)
    assert reply.message["content"] == parts


@pytest.mark.parametrize("kind", [["text"], {"a": 1}, None, 5])
async def test_a_part_whose_kind_is_no_word_is_not_known(lab: Any, kind: Any) -> None:
    reply = await lab.ask(message(content=[{"type": kind, "text": "x"}, {"type": "text", "text": "A"}]))
    assert (reply.text, reply.notes) == ("A", (str(kind),))


async def test_a_part_and_a_call_that_stand_alone_are_lists_of_one(lab: Any) -> None:
    part = {"type": "text", "text": "A"}
    reply = await lab.ask(message(content=part, tool_calls=call('{"command":"ls"}')))
    assert (reply.text, reply.message["content"]) == ("A", [part])
    assert [(made.id, made.arguments) for made in reply.calls] == [("c1", {"command": "ls"})]
    await next_turn_is_accepted(lab, reply)


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


def with_nested(turn: dict[str, Any], levels: int) -> dict[str, Any]:
    """The turn as a body, with so many lists in one another where it says DEEP."""
    choices = {"choices": [{"index": 0, "finish_reason": "stop", "message": turn["message"]}]}
    return {"body": json.dumps(choices).replace('"DEEP"', nested(levels))}


@pytest.mark.parametrize("levels", [100, 500, 900])
@pytest.mark.parametrize("as_text", [True, False])
async def test_arguments_that_are_nested_too_deeply_are_an_invalid_call(lab: Any, levels: int, as_text: bool) -> None:
    deep = f'{{"command": {nested(levels)}}}' if as_text else {"command": "DEEP"}
    reply = await lab.ask(with_nested(calls_message(call(deep)), levels))
    assert reply.calls[0].arguments is None
    assert "nested more than 100 levels deep" in reply.calls[0].error
    assert list(json.loads(reply.calls[0].arguments_json)) == [UNPARSED_KEY]
    await next_turn_is_accepted(lab, reply)


@pytest.mark.parametrize("as_text", [True, False])
async def test_arguments_that_are_nested_just_so_deep_are_run(lab: Any, as_text: bool) -> None:
    deep = f'{{"command": {nested(99)}}}' if as_text else {"command": "DEEP"}
    reply = await lab.ask(with_nested(calls_message(call(deep)), 99))
    assert reply.calls[0].arguments == {"command": json.loads(nested(99))}
    await next_turn_is_accepted(lab, reply)


@pytest.mark.parametrize(
    "fields",
    [
        {"content": "A", "reasoning_details": [{"type": "reasoning.text", "text": "T", "x": "DEEP"}]},
        {"content": "A", "reasoning": "DEEP"},
        {"content": [{"type": "text", "text": "A"}, {"type": "text", "text": "DEEP"}]},
        {"content": "A", "tool_calls": [call('{"command":"ls"}', extra="DEEP")]},
    ],
)
async def test_other_fields_that_are_nested_too_deeply_are_left_out(lab: Any, fields: dict[str, Any]) -> None:
    reply = await lab.ask(with_nested(message(**fields), 985))
    assert (reply.text, reply.reasoning) == ("A", "")
    assert {"reasoning", "reasoning_details"}.isdisjoint(reply.message)
    assert [made.error for made in reply.calls] == [""] * len(reply.calls)
    await next_turn_is_accepted(lab, reply)


async def test_a_deep_value_beside_control_characters_does_not_spoil_the_reply(lab: Any) -> None:
    body = with_nested(message(content="A@", reasoning_details=["DEEP"]), 900)["body"].replace("@", "\n")
    assert (await lab.ask({"body": body})).text == "A\n"


async def test_of_several_choices_the_one_with_index_0_is_taken(lab: Any) -> None:
    choices = [{"index": index, "message": {"content": str(index)}, "finish_reason": "stop"} for index in (1, 0)]
    assert (await lab.ask({"body": {"choices": choices}})).text == "0"


@pytest.mark.parametrize("reasoning", [{"content": "T"}, {"text": "T"}, [{"type": "text", "text": "T"}]])
async def test_reasoning_that_is_an_object_gives_its_text(lab: Any, reasoning: Any) -> None:
    reply = await lab.ask(message(content="A", reasoning=reasoning))
    assert (reply.text, reply.reasoning, reply.message["reasoning"]) == ("A", "T", reasoning)


@pytest.mark.parametrize(
    "fields", [{"reasoning": "T"}, {"reasoning_content": "T"}, {"reasoning": "T", "reasoning_content": "T"}]
)
async def test_b08_reasoning_is_read_under_either_name_and_sent_back_under_it(lab: Any, fields: dict[str, str]) -> None:
    reply = await lab.ask(message(content="A", **fields))
    assert (reply.text, reply.reasoning, reply.has_reasoning) == ("A", "T", True)
    assert {key: value for key, value in reply.message.items() if key.startswith("reasoning")} == fields


async def test_b08_the_tagged_copy_of_a_reasoning_field_is_not_counted_twice(lab: Any) -> None:
    reply = await lab.ask(message(content="<think>\nT\n</think>\n\nA", reasoning_content="T"))
    assert (reply.text, reply.reasoning) == ("A", "T")


async def test_signed_and_encrypted_thinking_counts_and_goes_back_as_it_came(lab: Any) -> None:
    details = [{"type": "reasoning.encrypted", "data": "abc", "format": "x"}]
    reply = await lab.ask(message(content="A", reasoning_details=details))
    assert reply.has_reasoning
    assert reply.message["reasoning_details"] == details


async def test_reasoning_details_give_the_text_where_no_field_does(lab: Any) -> None:
    details = [{"type": "reasoning.text", "text": "T", "signature": "s"}]
    reply = await lab.ask(message(content="A", reasoning_details=details))
    assert (reply.reasoning, reply.reasoning_source) == ("T", Source.DETAILS)


async def test_reasoning_tokens_alone_count_as_reasoning(lab: Any) -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 8}}
    reply = await lab.ask({"content": "A", "usage": usage})
    assert (reply.has_reasoning, reply.reasoning) == (True, "")


async def test_extra_fields_of_a_call_go_back_as_they_came(lab: Any) -> None:
    signature = {"google": {"thought_signature": "abc"}}
    reply = await lab.ask(calls_message(call('{"command":"ls"}', extra_content=signature)))
    assert reply.message["tool_calls"][0]["extra_content"] == signature
    assert "extra_content" not in reply.calls[0].as_stored()


@pytest.mark.parametrize(
    ("text", "answer", "reasoning"),
    [
        ("thought</think>answer", "answer", "thought"),
        ("<think>thought</think>answer", "answer", "thought"),
        ("\n<think>\nthought\n</think>\n\nanswer", "answer", "thought"),
        ("<think>thought", "", "thought"),
        ("<think></think>answer", "answer", ""),
        ("<REASONING_SCRATCHPAD>plan</REASONING_SCRATCHPAD>answer", "answer", "plan"),
        (
            "<REASONING_SCRATCHPAD>no </think> here</REASONING_SCRATCHPAD>answer",
            "answer",
            "no </think> here",
        ),
        ("<think>no </thinking> here</think>answer", "answer", "no </thinking> here"),
        ("<thinking>no </think> here", "", "no </think> here"),
        ("plan</REASONING_SCRATCHPAD>answer", "answer", "plan"),
        ("Look:\n```\n<think>x</think>\n```\n", "Look:\n```\n<think>x</think>\n```\n", ""),
        ("Write `</think>` at the end.", "Write `</think>` at the end.", ""),
        ("The tag <think> opens it, </think> ends it.", "The tag <think> opens it, </think> ends it.", ""),
        ("plain", "plain", ""),
    ],
)
def test_b09_inline_thinking_is_split_and_quoted_tags_are_left_alone(text: str, answer: str, reasoning: str) -> None:
    assert split_tags(text) == (answer, reasoning)


async def test_b09_thinking_that_is_never_closed_is_no_complete_turn(lab: Any) -> None:
    reply = await lab.ask({"content": "<think>thought", "finish_reason": "length"})
    assert (reply.text, reply.reasoning, reply.finish) == ("", "thought", Finish.CUT)


@pytest.mark.parametrize(
    ("turn", "finish"),
    [
        ({**calls_message(call('{"command":"ls"}')), "finish_reason": "stop"}, Finish.CALLS),
        ({**calls_message(call('{"command":"l')), "finish_reason": "length"}, Finish.CALLS),
        ({"content": None, "message": {"tool_calls": None}, "finish_reason": "tool_calls"}, Finish.EMPTY),
        ({"content": None, "finish_reason": "stop"}, Finish.EMPTY),
        ({"content": " \n", "finish_reason": "stop"}, Finish.EMPTY),
        ({"content": None, "reasoning": "hm", "finish_reason": "stop"}, Finish.EMPTY),
        ({"content": "half", "finish_reason": "length"}, Finish.CUT),
        ({"content": "done", "finish_reason": "weird"}, Finish.ANSWER),
        ({"content": None, "message": {"refusal": "No."}}, Finish.ANSWER),
    ],
)
async def test_b10_the_message_decides_what_a_reply_is(lab: Any, turn: dict[str, Any], finish: Finish) -> None:
    assert (await lab.ask(turn)).finish is finish


async def test_b10_a_null_finish_reason_with_text_is_an_answer(lab: Any) -> None:
    body = {"choices": [{"message": {"role": "assistant", "content": "done"}, "finish_reason": None}]}
    assert (await lab.ask({"body": body})).finish is Finish.ANSWER


async def test_b11_a_filtered_reply_in_a_200_is_no_answer(lab: Any) -> None:
    reply = await lab.ask({"content": "half", "finish_reason": "content_filter"})
    assert reply.finish is Finish.FILTERED


@pytest.mark.parametrize(
    ("turn", "usage"),
    [
        ({"omit": ["usage"]}, Usage(calls_without_usage=1)),
        ({"usage": None}, Usage(calls_without_usage=1)),
        ({"usage": {"prompt_tokens": 7}}, Usage(prompt_tokens=7)),
        ({"usage": {"prompt_tokens": 7.0, "completion_tokens": "x", "prompt_tokens_details": None}}, Usage(7)),
        ({"usage": {"prompt_tokens": -1, "completion_tokens": True}}, Usage(calls_without_usage=1)),
        ({"usage": {"total_tokens": 9}}, Usage(calls_without_usage=1)),
        ({"usage": {"prompt_tokens": 0, "completion_tokens": "12"}}, Usage(0, 12)),
        (
            {
                "usage": {
                    "prompt_tokens": 7,
                    "completion_tokens": 3,
                    "completion_tokens_details": {"reasoning_tokens": 2},
                    "prompt_tokens_details": {"cached_tokens": 5},
                }
            },
            Usage(7, 3, 2, 5),
        ),
    ],
)
async def test_b12_usage_may_be_missing_or_odd(lab: Any, turn: dict[str, Any], usage: Usage) -> None:
    reply = await lab.ask({"content": "A", **turn})
    assert (reply.text, reply.usage) == ("A", usage)


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>{"name":"terminal","arguments":{"command":"ls"}}</tool_call>',
        "I look.\n<tool_call>",
        "<function=terminal><parameter=command>ls",
        '[TOOL_CALLS][{"name": "terminal"}]',
    ],
)
async def test_b19_a_call_that_stands_as_text_is_no_answer(lab: Any, text: str) -> None:
    assert (await lab.ask({"content": text})).finish is Finish.UNPARSED_CALL


@pytest.mark.parametrize(
    "text", ["Models write `<tool_call>` for it.", "Such as:\n```\n<tool_call>{}</tool_call>\n```\nYes."]
)
async def test_b19_a_quoted_tag_is_an_answer(lab: Any, text: str) -> None:
    assert (await lab.ask({"content": text})).finish is Finish.ANSWER


async def test_a04_half_surrogate_pairs_in_a_reply_are_replaced_and_can_be_resent(lab: Any) -> None:
    raw = (
        r'{"choices":[{"message":{"content":"say \ud83d hi","tool_calls":[{"id":"\ud83d","function":'
        r'{"name":"terminal","arguments":"{\"command\":\"\\ud83d\"}"}}]}}]}'
    )
    reply = await lab.ask({"body": raw})
    assert reply.text == "say \ufffd hi"
    assert reply.calls[0].arguments == {"command": "\ufffd"}
    assert json.loads(reply.calls[0].arguments_json) == {"command": "\ufffd"}
    await next_turn_is_accepted(lab, reply)


async def test_a04_half_surrogate_pairs_in_what_is_sent_are_replaced(lab: Any) -> None:
    await lab.ask({"content": "ok"}, messages=[{"role": "user", "content": "say \ud83d hi"}])
    assert lab.sent[0]["messages"][0]["content"] == "say \ufffd hi"


async def test_names_that_no_function_can_have_are_resent_in_a_form_that_servers_take(lab: Any) -> None:
    reply = await lab.ask(calls_message(call("{}", name="functions.list"), {**call("{}", name=""), "id": "c2"}, 5))
    sent = [sent["function"]["name"] for sent in reply.message["tool_calls"]]
    assert sent == ["functions_list", "unnamed", "unnamed"]
    assert [call.name for call in reply.calls] == ["functions.list", "", ""]
    await next_turn_is_accepted(lab, reply)


async def test_large_integers_in_arguments_stay_exact(lab: Any) -> None:
    reply = await lab.ask(calls_message(call(f'{{"command": {2**70}}}')))
    assert reply.calls[0].arguments == {"command": 2**70}
    assert reply.calls[0].arguments_json == f'{{"command": {2**70}}}'


async def test_large_integers_in_arguments_that_came_as_an_object_stay_exact(lab: Any) -> None:
    choices = [{"message": calls_message(call({"command": 2**70}))["message"]}]
    reply = await lab.ask({"body": json.dumps({"choices": choices})})
    assert reply.calls[0].arguments == {"command": 2**70}
    assert json.loads(reply.calls[0].arguments_json) == {"command": 2**70}
