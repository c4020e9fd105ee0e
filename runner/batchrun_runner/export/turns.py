"""A saved conversation, taken apart: what both of the trainers' forms start from."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from batchrun_runner.agent.conversation import split_gpt_value, split_tool_value
from batchrun_runner.model.clean import dumps

_CALL_BLOCK = re.compile(r"\n?<tool_call>\n(.*?)\n</tool_call>", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call."""

    id: str
    name: str
    arguments: str
    """A JSON object as text."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool said."""

    call_id: str
    name: str
    content: str


@dataclass(frozen=True, slots=True)
class Said:
    """One turn. `role`: system, human, gpt or tool."""

    role: str
    text: str = ""
    reasoning: str = ""
    calls: tuple[Call, ...] = ()
    results: tuple[Result, ...] = ()


def said(conversations: Sequence[Mapping[str, Any]]) -> Iterator[Said]:
    """The turns in their order. Calls that the reference wrote into the text are calls here, too."""
    calls: tuple[Call, ...] = ()
    for place, turn in enumerate(conversations):
        role, value = turn["from"], turn["value"]
        if role == "gpt":
            text, reasoning = split_gpt_value(value)
            following = conversations[place + 1] if place + 1 < len(conversations) else None
            calls = tuple(_call(item) for item in turn["tool_calls"])
            if not calls and following is not None and following["from"] == "tool":
                text, calls = _tagged_calls(text, _results(following["value"], ()), place)
            yield Said(role, text, reasoning, calls)
        elif role == "tool":
            yield Said(role, results=_results(value, calls))
        else:
            yield Said(role, value)


def _call(item: Mapping[str, Any]) -> Call:
    return Call(item["id"], item["function"]["name"], item["function"]["arguments"])


def _results(value: str, calls: Sequence[Call]) -> tuple[Result, ...]:
    """The blocks of a tool turn; a turn of another form is one result, of the first call."""
    blocks = split_tool_value(value)
    if blocks is None:
        blocks = [{"content": value}]
    return tuple(
        Result(
            str(block.get("tool_call_id") or (calls[place].id if place < len(calls) else f"call_{place}")),
            str(block.get("name") or (calls[place].name if place < len(calls) else "")),
            _content(block.get("content")),
        )
        for place, block in enumerate(blocks)
    )


def _content(content: Any) -> str:
    """The reference puts JSON into its blocks as it is."""
    return content if isinstance(content, str) else dumps(content).decode()


def _tagged_calls(text: str, results: Sequence[Result], place: int) -> tuple[str, tuple[Call, ...]]:
    """(text without them, calls) of a turn of the reference. What is no call stays text."""
    calls = []
    for number, block in enumerate(_CALL_BLOCK.findall(text)):
        try:
            document = json.loads(block)
            name, arguments = str(document["name"]), document.get("arguments") or {}
        except (ValueError, TypeError, KeyError, AttributeError):
            return text, ()
        call_id = results[number].call_id if number < len(results) else f"call_{place}_{number}"
        calls.append(Call(call_id, name, _content(arguments)))
    return _CALL_BLOCK.sub("", text).rstrip("\n") if calls else text, tuple(calls)
