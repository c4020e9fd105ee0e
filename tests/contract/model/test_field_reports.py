"""The field reports b01 to b19, each in a whole run in which the other prompts finish untouched."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from tests.contract.model.support import OK, Stage, call, calls, command

COMPLETED = ("completed", "")


def arguments_of(turn: dict[str, Any]) -> list[Any]:
    """The arguments of a stored turn's calls; each must be JSON."""
    return [json.loads(made["function"]["arguments"]) for made in turn["tool_calls"]]


def results(text: str) -> list[str]:
    """The contents of a stored tool turn."""
    blocks = text.split("<tool_response>\n")[1:]
    return [json.loads(block.partition("\n</tool_response>")[0])["content"] for block in blocks]


def error(message: str, code: Any = None, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "code": code, **more}}


def test_b01_arguments_that_are_no_json_are_not_run_and_resent_as_json(stage: Stage) -> None:
    broken = '{"command": "echo "hi""}'
    played = stage.play({"once": [calls(call(broken)), command("echo again"), OK], "always": [calls(call(broken))]})

    assert played.verdict("once") == COMPLETED
    stored = played.rows["once"]
    assert arguments_of(stored["conversations"][1]) == [{"unparsed_arguments": broken}]
    assert "not valid JSON" in results(stored["conversations"][2]["value"])[0]
    assert stored["tool_stats"]["terminal"] == {"count": 2, "success": 1, "failure": 1}
    assert stored["invalid_tool_calls"] == 1
    resent = played.requests["once"][1]["messages"][-2]["tool_calls"][0]
    assert json.loads(resent["function"]["arguments"]) == {"unparsed_arguments": broken}
    assert played.verdict("always") == ("failed", "InvalidToolCalls")
    assert played.rows["always"]["partial"] is True
    assert len(played.requests["always"]) == 3


def test_b02_arguments_in_odd_forms_run_once_or_get_an_error(stage: Stage) -> None:
    forms: list[Any] = [
        {"command": "echo object"},
        json.dumps(json.dumps({"command": "echo twice"})),
        "",
        "null",
        "[]",
        '"ls"',
    ]
    made = [{**call(form), "id": f"c{number}"} for number, form in enumerate(forms)]
    played = stage.play({"odd": [calls(*made), OK]})

    assert played.verdict("odd") == COMPLETED
    _, asked, answered, _ = played.rows["odd"]["conversations"]
    said = results(answered["value"])
    assert ["object" in said[0], "twice" in said[1]] == [True, True]
    assert all("error" in json.loads(words) for words in said[2:])
    assert arguments_of(asked)[:2] == [{"command": "echo object"}, {"command": "echo twice"}]
    assert played.rows["odd"]["tool_stats"]["terminal"] == {"count": 6, "success": 2, "failure": 4}
    assert played.rows["odd"]["invalid_tool_calls"] == 4


def test_b03_control_characters_are_accepted_bad_escapes_refused_and_an_emoji_is_one_character(stage: Stage) -> None:
    forms = [
        '{"command": "echo one\necho\ttwo"}',
        r'{"command": "echo C:\Users"}',
        r'{"command": "echo \u12"}',
        r'{"command": "printf %s \"\ud83c\udf78\" | wc -c"}',
    ]
    made = [{**call(form), "id": f"c{number}"} for number, form in enumerate(forms)]
    played = stage.play({"escapes": [calls(*made), OK]})

    assert played.verdict("escapes") == COMPLETED
    said = results(played.rows["escapes"]["conversations"][2]["value"])
    assert "one\\ntwo" in said[0]
    assert ["escape" in words for words in said[1:3]] == [True, True]
    assert '"4\\n"' in said[3] or '"4"' in said[3], "four bytes of UTF-8"
    assert played.rows["escapes"]["tool_stats"]["terminal"] == {"count": 4, "success": 2, "failure": 2}


def test_b04_missing_and_equal_ids_become_unique_and_each_has_its_result(stage: Stage) -> None:
    echo = [json.dumps({"command": f"echo number-{number}"}) for number in range(4)]
    nameless = call(echo[1])
    del nameless["id"]
    first = calls(call(echo[0], id=""), nameless)
    second = calls(call(echo[2], id="edit:0"), call(echo[3], id="edit:0"))
    played = stage.play({"ids": [first, second, OK]})

    assert played.verdict("ids") == COMPLETED
    messages = played.requests["ids"][-1]["messages"]
    asked = [made["id"] for message in messages for made in message.get("tool_calls", ())]
    answered = {message["tool_call_id"]: message["content"] for message in messages if message["role"] == "tool"}
    assert len(set(asked)) == 4
    assert list(answered) == asked
    assert [f"number-{number}" in answered[made] for number, made in enumerate(asked)] == [True] * 4
    stored = [made["id"] for turn in played.rows["ids"]["conversations"] for made in turn["tool_calls"]]
    assert stored == asked


def test_b05_an_empty_list_of_calls_is_never_sent_back(stage: Stage) -> None:
    """The server answers 400 to an empty list."""
    turns = [calls(content=None), {"content": "ok", "message": {"tool_calls": []}}]
    played = stage.play(
        {
            "empty": [[turns[0], command("echo x")], turns[1]],
            "null": [{"content": "ok", "message": {"tool_calls": None}}],
        }
    )

    for name in ("empty", "null"):
        assert played.verdict(name) == COMPLETED
        sent = [message for body in played.requests[name] for message in body["messages"]]
        assert [message for message in sent if message.get("tool_calls") == []] == []
        assert played.rows[name]["conversations"][-1]["tool_calls"] == []


def test_b06_an_error_in_a_200_is_that_error(stage: Stage) -> None:
    passing = {"body": error("Provider returned error", 502, metadata={"raw": "upstream overloaded"})}
    limited = {"body": {**error("slow", "429"), "choices": None}}
    lasting = {"body": error("Provider returned error", 400, metadata={"raw": "no such field"})}
    played = stage.play(
        {"passing": [[passing, passing, OK]], "limited": [[limited, OK]], "lasting": [lasting], "for-ever": [passing]}
    )

    assert played.verdict("passing") == played.verdict("limited") == COMPLETED
    assert played.verdict("lasting") == ("failed", "InvalidRequest")
    assert "no such field" in played.rows["lasting"]["message"]
    assert len(played.requests["lasting"]) == 1
    assert played.verdict("for-ever") == ("failed", "ProviderError")
    assert "upstream overloaded" in played.rows["for-ever"]["message"]
    assert len(played.requests["for-ever"]) == 8


def test_b07_content_in_parts_is_text_and_reasoning(stage: Stage) -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "T"}]}, {"type": "text", "text": "A"}]
    played = stage.play(
        {"parts": [{"content": parts}], "odd": [{"content": [{"type": "hologram"}, *parts]}]},
        filters={"requireReasoning": True},
    )

    for name in ("parts", "odd"):
        assert played.verdict(name) == COMPLETED
        assert played.answer(name) == "<think>\nT\n</think>\nA"
    assert played.statistics["reasoning_statistics"]["turns_without_reasoning"] == 0


@pytest.mark.parametrize("stream", [False, True])
def test_b08_reasoning_is_read_under_either_name_and_sent_back_under_it(stage: Stage, stream: bool) -> None:
    forms = {
        "reasoning": {"reasoning": "T"},
        "content": {"reasoning_content": "T"},
        "both": {"reasoning": "T", "reasoning_content": "T"},
    }
    prompts = {name: [{**command("echo x"), "message": form}, OK] for name, form in forms.items()}
    played = stage.play(prompts, filters={"requireReasoning": True}, model={"stream": stream})

    for name, form in forms.items():
        assert played.verdict(name) == COMPLETED
        sent = played.requests[name][-1]["messages"][-2]
        assert {key: value for key, value in sent.items() if key.startswith("reasoning")} == form
        assert played.said(name, "gpt")[0].count("T") == 1


def test_b09_inline_thinking_is_split_and_an_open_one_is_no_answer(stage: Stage) -> None:
    fenced = "Such as:\n```\n<think>x</think>\n```\n"
    played = stage.play(
        {
            "closed": [{"content": "thought</think>answer"}],
            "open": [{"content": "<think>thought", "finish_reason": "length"}],
            "quoted": [{"content": fenced}],
        }
    )

    assert played.answer("closed") == "<think>\nthought\n</think>\nanswer"
    assert played.verdict("open") == ("failed", "TruncatedReply")
    assert played.rows["open"]["completed"] is False
    assert played.answer("open") == "<think>\nthought\n</think>\n"
    assert played.verdict("quoted") == COMPLETED
    assert played.answer("quoted") == fenced


def test_b10_the_message_decides_and_not_the_finish_reason(stage: Stage) -> None:
    no_finish = {"body": {"choices": [{"message": {"role": "assistant", "content": "done"}, "finish_reason": None}]}}
    played = stage.play(
        {
            "stop-with-call": [{**command("echo ran"), "finish_reason": "stop"}, OK],
            "calls-without": [{"content": None, "message": {"tool_calls": None}, "finish_reason": "tool_calls"}],
            "stop-without": [{"content": None, "finish_reason": "stop"}],
            "null": [no_finish],
        }
    )

    assert played.verdict("stop-with-call") == COMPLETED
    assert "ran" in played.said("stop-with-call", "tool")[0]
    for name in ("calls-without", "stop-without"):
        assert played.verdict(name) == ("failed", "EmptyReply")
        assert len(played.requests[name]) == 3
    assert played.verdict("null") == COMPLETED


def test_b11_a_filtered_prompt_is_asked_once_and_fails_alone(stage: Stage) -> None:
    refused = {"status": 400, "body": error("filtered", "content_filter")}
    played = stage.play({"400": [refused], "200": [{"content": None, "finish_reason": "content_filter"}]})

    for name in ("400", "200"):
        assert played.verdict(name) == ("failed", "ContentFiltered")
        assert len(played.requests[name]) == 1


def test_b12_usage_that_is_missing_is_counted_and_not_guessed(stage: Stage) -> None:
    played = stage.play(
        {
            "absent": [{"content": "A", "omit": ["usage"]}],
            "null": [{"content": "A", "usage": None}],
            "half": [{"content": "A", "usage": {"prompt_tokens": 7}}],
        }
    )

    assert [played.verdict(name) for name in ("absent", "null", "half")] == [COMPLETED] * 3
    tokens = played.statistics["tokens"]
    assert tokens["calls_without_usage"] == 2
    assert all(type(count) is int for count in tokens.values())
    assert played.rows["half"]["usage"]["prompt_tokens"] == played.rows["half"]["usage"]["total_tokens"] == 7


def test_b13_every_form_of_the_wait_hint_is_obeyed_up_to_the_cap(stage: Stage) -> None:
    now = datetime.now(UTC)
    hints: dict[str, dict[str, Any]] = {
        "seconds": {"headers": {"Retry-After": "0.3"}},
        "hours": {"headers": {"Retry-After": "3600"}},
        "date": {"headers": {"Retry-After": format_datetime(now + timedelta(seconds=5), usegmt=True)}},
        "past": {"headers": {"Retry-After": format_datetime(now - timedelta(days=1), usegmt=True)}},
        "rubbish": {"headers": {"Retry-After": "soon"}},
        "milliseconds": {"headers": {"retry-after-ms": "250"}},
        "reset": {"headers": {"x-ratelimit-reset-requests": "250ms", "x-ratelimit-remaining-requests": "0"}},
        "body": {"body": error("Please try again in 0.2s.", "rate_limit_exceeded")},
    }
    played = stage.play({name: [[{"status": 429, **hint}, OK]] for name, hint in hints.items()}, in_prompt=False)

    assert [name for name in hints if played.verdict(name) != COMPLETED] == []
    assert {len(played.requests[name]) for name in hints} == {2}


@pytest.mark.parametrize("stream", [False, True])
def test_b14_a_server_that_hangs_or_drips_ends_at_the_deadline_of_the_call(stage: Stage, stream: bool) -> None:
    played = stage.play(
        {"hang": [{"fault": "hang"}], "drip": [{"fault": "drip"}], "once": [[{"fault": "hang"}, OK]]},
        model={"timeoutSeconds": 1, "stream": stream},
    )

    for name in ("hang", "drip"):
        assert played.verdict(name) == ("failed", "Timeout")
        assert "3 attempts" in played.rows[name]["message"]
    assert played.verdict("once") == COMPLETED


def test_b15_an_answer_that_breaks_off_is_asked_again_and_its_half_call_never_runs(stage: Stage) -> None:
    faults: dict[str, dict[str, Any]] = {
        "silent": {"stream_fault": "silent"},
        "error": {"stream_fault": "error"},
        "cut": {"fault": "cut"},
    }
    whole = command("echo ran >> ran.txt; cat ran.txt")
    prompts: dict[str, Any] = {
        f"{name}-text": [[{"content": "a long answer", **fault}, OK]] for name, fault in faults.items()
    }
    prompts |= {f"{name}-call": [[{**whole, **fault}, whole], OK] for name, fault in faults.items()}
    prompts["for-ever"] = [{"content": "a long answer", "stream_fault": "silent"}]
    played = stage.play(prompts, model={"stream": True})

    assert [name for name in prompts if played.verdict(name) != COMPLETED] == ["for-ever"]
    assert played.verdict("for-ever") == ("failed", "ProviderError")
    for name in faults:
        assert played.answer(f"{name}-text") == "fine"
        assert played.said(f"{name}-call", "tool")[0].count("ran") == 1
        assert played.rows[f"{name}-call"]["tool_stats"]["terminal"]["count"] == 1


def test_b16_too_long_conversations_are_told_from_bad_requests_and_silent_cuts_are_flagged(stage: Stage) -> None:
    words = {
        "openai": error("This model's maximum context length is 8192 tokens.", "context_length_exceeded"),
        "anthropic": error("prompt is too long: 210000 tokens > 200000 maximum"),
        "llama.cpp": error("the request exceeds the available context size. try increasing it", 400),
        "glm": error("input exceeds the maximum allowed input length", "400"),
    }
    prompts: dict[str, Any] = {
        name: [command("echo said"), {"status": 400, "body": body}] for name, body in words.items()
    }
    prompts["bad"] = [{"status": 400, "body": error("max_tokens must be less than or equal to 4096")}]
    prompts["silent"] = [
        {**command("echo one"), "usage": {"prompt_tokens": 900, "completion_tokens": 5}},
        {**command("echo two"), "usage": {"prompt_tokens": 1000, "completion_tokens": 5}},
        {"content": "done", "usage": {"prompt_tokens": 400, "completion_tokens": 5}},
    ]
    played = stage.play(prompts, in_prompt=False)

    for name in words:
        assert played.verdict(name) == ("failed", "ContextLengthExceeded")
        assert len(played.requests[name]) == 2, "asked once"
        assert "said" in played.said(name, "tool")[0], "what was said is kept"
    assert played.verdict("bad") == ("failed", "InvalidRequest")
    assert played.verdict("silent") == COMPLETED
    assert played.rows["silent"]["usage"]["shortened_prompts"] == 1
    assert played.statistics["tokens"]["shortened_prompts"] == 1


def test_b17_each_call_of_a_message_has_exactly_one_result_in_order(stage: Stage) -> None:
    made = [
        call('{"command": "echo good"}', id="a"),
        call('{"command": "sleep 30", "timeout": 1}', id="b"),
        call("{}", name="unheard_of", id="c"),
    ]
    played = stage.play({"three": [calls(*made), OK]})

    assert played.verdict("three") == COMPLETED
    assert [message["tool_call_id"] for message in played.tool_messages("three")] == ["a", "b", "c"]
    said = results(played.said("three", "tool")[0])
    assert "good" in said[0]
    assert "time" in said[1]
    assert "unknown tool" in said[2]
    stored = played.rows["three"]
    assert stored["invalid_tool_calls"] == 1
    assert sum(stat["count"] for stat in stored["tool_stats"].values()) + stored["invalid_tool_calls"] == 3


def test_b18_a_tool_that_does_not_exist_is_answered_with_the_names_and_makes_no_new_column(stage: Stage) -> None:
    kept = stage.play({"unknown": [calls(call("{}", name="generic_command")), command("echo x"), OK]})

    assert kept.verdict("unknown") == COMPLETED
    said = results(kept.said("unknown", "tool")[0])[0]
    assert "unknown tool 'generic_command'" in said
    assert "terminal" in said
    assert "read_file" in said
    assert "generic_command" not in kept.rows["unknown"]["tool_stats"]
    assert kept.rows["unknown"]["tool_stats"].keys() == kept.rows["good-1"]["tool_stats"].keys()
    assert kept.rows["unknown"]["invalid_tool_calls"] == 1


TAGGED = '<tool_call>{"name":"terminal","arguments":{"command":"echo ran"}}</tool_call>'


def test_b19_a_call_that_stands_as_text_is_never_an_answer(stage: Stage) -> None:
    played = stage.play({"whole": [{"content": TAGGED}], "half": [{"content": "I look.\n<tool_call>"}]})

    for name in ("whole", "half"):
        assert played.verdict(name) == ("failed", "UnparsedToolCall")
        assert played.rows[name]["completed"] is False
        assert len(played.requests[name]) == 3


def test_b19_by_option_a_call_that_stands_as_text_runs(stage: Stage) -> None:
    played = stage.play(
        {"whole": [{"content": TAGGED}, OK], "half": [{"content": "I look.\n<tool_call>"}]},
        model={"callsInText": "Parse"},
    )

    assert played.verdict("whole") == COMPLETED
    assert "ran" in played.said("whole", "tool")[0]
    assert played.verdict("half") == ("failed", "UnparsedToolCall")


def test_replies_in_forms_that_no_server_should_send_touch_their_own_prompt_alone(stage: Stage) -> None:
    deep = '{"command": ' + "[" * 900 + "]" * 900 + "}"
    body = json.dumps({"choices": [{"message": calls(call("DEEP"))["message"]}]})
    played = stage.play(
        {
            "deep-text": [calls(call(deep)), OK],
            "deep-object": [{"body": body.replace('"DEEP"', deep)}, OK],
            "kinds": [{"message": {"content": [{"type": ["text"]}, {"type": "text", "text": "A"}]}}],
        }
    )
    assert {name: played.verdict(name) for name in played.rows} == dict.fromkeys(played.rows, COMPLETED)
    for name in ("deep-text", "deep-object"):
        assert "nested" in results(played.rows[name]["conversations"][2]["value"])[0]
        assert played.rows[name]["invalid_tool_calls"] == 1


def test_a_stream_in_the_forms_that_servers_mix_loses_nothing(stage: Stage) -> None:
    def stream(*deltas: dict[str, Any], finish: str = "stop") -> dict[str, str]:
        parts = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
        events = [*parts, {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}]
        return {"body": "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"}

    thought = [{"type": "thinking", "thinking": [{"type": "text", "text": text}]} for text in ("I ", "see")]
    names = [{"function": {"name": "terminal", "arguments": f'{{"command":"echo {word}"}}'}} for word in ("a1", "b2")]
    legacy = [{"name": "terminal", "arguments": ""}, {"arguments": '{"command":'}, {"arguments": '"echo c3"}'}]
    played = stage.play(
        {
            "parts": [
                stream({"content": [thought[0]]}, {"content": [thought[1]]}, {"content": "The "}, {"content": "end"})
            ],
            "calls": [stream(*({"tool_calls": [made]} for made in names)), OK],
            "legacy": [stream(*({"function_call": made} for made in legacy)), OK],
            "filtered": [stream(finish="content_filter")],
        },
        model={"stream": True},
    )
    assert played.answer("parts") == "<think>\nI see\n</think>\nThe end"
    assert ["a1" in said for said in results(played.said("calls", "tool")[0])] == [True, False]
    assert ["b2" in said for said in results(played.said("calls", "tool")[0])] == [False, True]
    assert "c3" in played.said("legacy", "tool")[0]
    assert played.verdict("filtered") == ("failed", "ContentFiltered")
    assert len(played.requests["filtered"]) == 1
