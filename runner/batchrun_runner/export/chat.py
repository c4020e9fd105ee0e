"""`openai`: the messages of the chat completions API, as trainers take them (docs/trajectories.md)."""

from collections.abc import Iterator
from typing import Any

import orjson

from batchrun_runner.agent.conversation import gpt_value
from batchrun_runner.export.options import Reasoning
from batchrun_runner.export.turns import Said, said

_ROLES = {"system": "system", "human": "user"}
METADATA = ("prompt_index", "sample", "key", "id", "outcome", "reason", "completed", "reward")
"""Columns that go along; the model stands there too."""


def chat_row(row: dict[str, Any], reasoning: Reasoning, *, tools_as_json: bool, metadata: bool) -> dict[str, Any]:
    """One example. `tools_as_json`: the schemas as one string, else as a list."""
    made: dict[str, Any] = {
        "messages": [message for turn in said(row["conversations"]) for message in _messages(turn, reasoning)],
        "tools": row["tools"] if tools_as_json else orjson.loads(row["tools"]),
    }
    if metadata:
        made |= {name: row[name] for name in METADATA} | {"model": row["metadata"]["model"]}
    return made


def _messages(turn: Said, reasoning: Reasoning) -> Iterator[dict[str, Any]]:
    if turn.role == "tool":
        for result in turn.results:
            yield {
                "role": "tool",
                "tool_call_id": result.call_id,
                "name": result.name,
                "content": result.content,
            }
    elif turn.role == "gpt":
        yield _assistant(turn, reasoning)
    else:
        yield {"role": _ROLES.get(turn.role, "user"), "content": turn.text}


def _assistant(turn: Said, reasoning: Reasoning) -> dict[str, Any]:
    tagged = reasoning is Reasoning.TAGS
    message: dict[str, Any] = {
        "role": "assistant",
        "content": gpt_value(turn.text, turn.reasoning) if tagged else turn.text,
    }
    if reasoning is Reasoning.FIELD and turn.reasoning:
        message["reasoning_content"] = turn.reasoning
    if turn.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in turn.calls
        ]
    return message
