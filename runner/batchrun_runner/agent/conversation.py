"""The saved form of a conversation: turns `{from, value, tool_calls}` (docs/trajectories.md)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from batchrun_runner.model.calls import ToolCall
from batchrun_runner.model.clean import dumps, loads
from batchrun_runner.text import clean_text

_THINK_START = "<think>\n"
_THINK_END = "</think>"
_ESCAPED_END = re.compile(r"&((?:amp;)*)lt;/think&gt;")


@dataclass(frozen=True, slots=True)
class Turn:
    """One assistant turn with what its tools said."""

    text: str
    reasoning: str
    has_reasoning: bool
    """Also true for reasoning of which the server gives no text."""
    calls: tuple[ToolCall, ...] = ()
    results: list[str] = field(default_factory=list)
    """In the order of `calls`."""


def conversation(system_prompt: str | None, prompt: str, turns: Sequence[Turn]) -> list[dict[str, Any]]:
    """The turns as they are saved: roles alternate, all results of a `gpt` turn are one `tool` turn (f05)."""
    saved = [] if system_prompt is None else [_turn("system", clean_text(system_prompt))]
    saved.append(_turn("human", clean_text(prompt)))
    for turn in turns:
        saved.append(_turn("gpt", gpt_value(turn.text, turn.reasoning), [call.as_stored() for call in turn.calls]))
        if turn.results:
            saved.append(_turn("tool", tool_value(turn.calls, turn.results)))
    return saved


def gpt_value(text: str, reasoning: str) -> str:
    """The text, with its reasoning before it in `<think>` tags where there is any; `split_gpt_value` is the inverse.

    A closing tag within the reasoning is written `&lt;/think&gt;` (and what reads so already gets one `amp;` more), so
    that the first closing tag is the end. A text that itself begins like a block gets an empty one before it.
    """
    if not reasoning and not text.startswith(_THINK_START):
        return text
    escaped = _ESCAPED_END.sub(r"&amp;\1lt;/think&gt;", reasoning).replace("</think>", "&lt;/think&gt;")
    return f"{_THINK_START}{escaped}\n{_THINK_END}\n{text}"


def split_gpt_value(value: str) -> tuple[str, str]:
    """(text, reasoning) of a `gpt` turn's value; no reasoning where it does not begin with a whole block.

    Also takes the reference's forms: an empty block without a line in it, a block with nothing after it.
    """
    end = value.find(_THINK_END) if value.startswith(_THINK_START) else -1
    if end < 0:
        return value, ""
    escaped, text = value[len(_THINK_START) : end], value[end + len(_THINK_END) :]
    if (escaped and not escaped.endswith("\n")) or (text and not text.startswith("\n")):
        return value, ""
    escaped, text = escaped[:-1], text[1:]
    reasoning = _ESCAPED_END.sub(lambda found: f"&{found[1][4:]}lt;/think&gt;" if found[1] else "</think>", escaped)
    return text, reasoning


def tool_value(calls: Sequence[ToolCall], results: Sequence[str]) -> str:
    """All results of a turn as `<tool_response>` blocks, each one line of JSON `{tool_call_id, name, content}`.

    A closing tag within the JSON is written with its `<` escaped (`\\u003c`), which JSON readers undo.
    """
    return "\n".join(
        f"<tool_response>\n{_result_json(call, result)}\n</tool_response>"
        for call, result in zip(calls, results, strict=False)
    )


_BLOCK = re.compile(r"<tool_response>\n(.*?)\n</tool_response>(?:\n|\Z)", re.DOTALL)


def split_tool_value(value: str) -> list[dict[str, Any]] | None:
    """The JSON of each block of a tool turn, the inverse of `tool_value`; None where it is not all blocks of JSON."""
    blocks: list[dict[str, Any]] = []
    place = 0
    while place < len(value):
        found = _BLOCK.match(value, place)
        if found is None:
            return None
        try:
            block = loads(found[1])
        except ValueError:
            return None
        if not isinstance(block, dict):
            return None
        blocks.append(block)
        place = found.end()
    return blocks


def _result_json(call: ToolCall, result: str) -> str:
    line = dumps({"tool_call_id": call.id, "name": call.name, "content": result}).decode()
    return line.replace("</tool_response>", "\\u003c/tool_response>")


def _turn(role: str, value: str, tool_calls: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"from": role, "value": value, "tool_calls": tool_calls or []}
