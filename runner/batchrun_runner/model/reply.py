"""A reply in normal form. The message decides what it is; the server's finish_reason is only a hint (b10)."""

import re
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from batchrun_runner.model.calls import ToolCall, read_calls
from batchrun_runner.model.clean import clean, is_too_deep
from batchrun_runner.model.text_calls import take_calls
from batchrun_runner.model.thinking import SENT_BACK, Source, split
from batchrun_runner.records import Usage
from batchrun_runner.text import clean_text


class Finish(StrEnum):
    """What the agent has to do with a reply."""

    ANSWER = "answer"
    """Text and no calls: the final answer."""
    CALLS = "calls"
    """At least one call, whatever the server says."""
    EMPTY = "empty"
    """Neither text nor calls."""
    CUT = "cut"
    """The limit of tokens ended it before it was done, and it has no calls."""
    FILTERED = "filtered"
    """A content filter ended it."""
    UNPARSED_CALL = "unparsed call"
    """A call stands as tagged text: the server's parser missed it (b19)."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One assistant turn."""

    text: str
    """Without reasoning."""
    reasoning: str
    reasoning_source: Source
    has_reasoning: bool
    """True: reasoning text, a signed thinking block, or reasoning tokens in the usage."""
    calls: tuple[ToolCall, ...]
    finish: Finish
    server_finish: str
    """finish_reason as the server gave it; empty: none."""
    usage: Usage
    message: dict[str, Any]
    """The assistant message to send back: as it came, and valid everywhere."""
    notes: tuple[str, ...] = ()
    """Kinds of content parts that are not known."""


def read_reply(
    body: Mapping[str, Any],
    tools: Sequence[Mapping[str, Any]] = (),
    taken: Container[str] = (),
    salt: str = "",
    *,
    calls_in_text: bool = False,
) -> Reply:
    """The normal form of a chat completion object that holds a choice (`failures.of_answer` found nothing wrong).

    `tools`: the schemas that were offered. `taken`: call ids that the conversation has used. `salt`: see `read_calls`.
    `calls_in_text`: calls that the server left in the text are read from there.
    """
    choice = body["choices"][0]
    message = _readable(choice["message"])
    parts = split(message)
    if calls_in_text and tools and not message.get("tool_calls"):
        text, found = take_calls(parts.text)
        if found:
            parts = replace(parts, text=text)
            message = {**message, "content": text, "tool_calls": found}
    calls = read_calls(message, _needs_arguments(tools), taken, salt)
    usage = read_usage(body.get("usage"))
    server_finish = choice.get("finish_reason")
    server_finish = clean_text(server_finish)[:40] if isinstance(server_finish, str) else ""
    return Reply(
        text=parts.text,
        reasoning=parts.reasoning,
        reasoning_source=parts.source,
        has_reasoning=bool(parts.reasoning.strip()) or parts.signed or usage.reasoning_tokens > 0,
        calls=calls,
        finish=_judge(parts.text, calls, server_finish, offered=bool(tools)),
        server_finish=server_finish,
        usage=usage,
        message=_to_send_back(message, calls),
        notes=parts.notes,
    )


def _readable(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message with lists where one part or one call stands alone, and without what is nested too deeply.

    Calls keep what is too deep: `read_calls` says so to the model.
    """
    readable: dict[str, Any] = {}
    for key, given in message.items():
        value = [given] if key in {"content", "tool_calls"} and isinstance(given, dict) else given
        if key == "content" and isinstance(value, list):
            readable[key] = [part for part in value if not is_too_deep(part)]
        elif key in {"tool_calls", "function_call"} or not is_too_deep(value):
            readable[key] = value
    return readable


# At the start of a line only, outside of code fences: the marks with which models of the usual families open a call.
_CALL_MARK = re.compile(
    r"^[ \t]*(?:<tool_call>|<\|tool_call\|?>|<function=|<function_calls?>|<invoke |\[TOOL_CALLS\]|<\|python_tag\|>"
    r"|<\|tool_calls_section_begin\|>|<\uff5ctool\u2581calls\u2581begin\uff5c>|<\|channel\|>commentary to=)",
    re.MULTILINE,
)
_FENCED = re.compile(r"^[ \t]*(```|~~~).*?(?:^[ \t]*\1|\Z)", re.MULTILINE | re.DOTALL)


def _judge(text: str, calls: Sequence[ToolCall], server_finish: str, *, offered: bool) -> Finish:
    if server_finish == "content_filter":
        return Finish.FILTERED
    if calls:
        return Finish.CALLS
    if offered and ("<" in text or "[TOOL_CALLS]" in text) and _CALL_MARK.search(_FENCED.sub("", text)):
        return Finish.UNPARSED_CALL
    if server_finish in {"length", "max_tokens", "model_length"}:
        return Finish.CUT
    return Finish.ANSWER if text.strip() else Finish.EMPTY


def _needs_arguments(tools: Sequence[Mapping[str, Any]]) -> dict[str, bool]:
    return {
        tool["function"]["name"]: bool((tool["function"].get("parameters") or {}).get("required")) for tool in tools
    }


def _to_send_back(message: Mapping[str, Any], calls: Sequence[ToolCall]) -> dict[str, Any]:
    """Role, content, calls, and the fields that a server wants back; nothing that only replies carry."""
    content = message.get("content")
    sent: dict[str, Any] = {
        "role": "assistant",
        # Never null nor left out: llama-cpp-python refuses the one, DeepSeek the other, and templates print "None".
        "content": clean(content) if isinstance(content, (str, list)) and content else "",
    }
    for key in SENT_BACK:
        if message.get(key):
            sent[key] = clean(message[key])
    if calls:
        sent["tool_calls"] = [call.as_sent() for call in calls]
    return sent


_BOTH_SIDES = ("prompt_tokens", "input_tokens", "completion_tokens", "output_tokens")


def read_usage(usage: object) -> Usage:
    """Tokens as the server reported them; usage that is absent, null or no numbers is counted, not guessed (b12)."""
    if not isinstance(usage, dict) or all(_number(usage.get(name)) is None for name in _BOTH_SIDES):
        return Usage(calls_without_usage=1)
    completion = usage.get("completion_tokens_details") or usage.get("output_tokens_details")
    prompt = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
    return Usage(
        prompt_tokens=_count(usage, "prompt_tokens", "input_tokens"),
        completion_tokens=_count(usage, "completion_tokens", "output_tokens"),
        reasoning_tokens=_count(completion, "reasoning_tokens") or _count(usage, "reasoning_tokens"),
        cached_tokens=_count(prompt, "cached_tokens")
        or _count(usage, "prompt_cache_hit_tokens", "cache_read_input_tokens"),
    )


def _count(fields: object, *names: str) -> int:
    """The first of the fields that holds a number; 0: none does."""
    numbers = (_number(fields.get(name)) for name in names) if isinstance(fields, dict) else ()
    return next((number for number in numbers if number is not None), 0)


def _number(value: object) -> int | None:
    """A count of tokens; some servers write it as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        value = int(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 2**53:
        return int(value)
    return None
