"""A chat completion object as the events of a stream, cut into small pieces."""

from collections.abc import Iterator, Sequence
from typing import Any

import orjson

PIECE_CHARS = 7

Event = dict[str, Any]


def events(completion: Event, *, with_usage: bool) -> list[Event]:
    """What a server sends: role, pieces, finish reason, and usage where it was asked for."""
    head = {key: value for key, value in completion.items() if key not in {"choices", "usage"}}
    head["object"] = "chat.completion.chunk"
    [choice] = completion["choices"]
    sent = [_event(head, {"role": "assistant", "content": ""})]
    sent += [_event(head, delta) for delta in _deltas(choice["message"])]
    sent.append(_event(head, {}, choice["finish_reason"]))
    if with_usage and "usage" in completion:
        sent.append({**head, "choices": [], "usage": completion["usage"]})
    return sent


def first_half(whole: Sequence[Event]) -> list[Event]:
    """At least two events, and not the finish reason."""
    return list(whole[: max(2, len(whole) // 2)])


def encode(sent: Sequence[Event], *, ended: bool) -> bytes:
    """Server-sent events with a comment before them, as gateways send one."""
    lines = [b": demo model\n\n", *(b"data: " + orjson.dumps(event) + b"\n\n" for event in sent)]
    return b"".join([*lines, b"data: [DONE]\n\n"] if ended else lines)


def _event(head: Event, delta: Event, finish_reason: str | None = None) -> Event:
    return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def _deltas(message: Event) -> Iterator[Event]:
    for key, value in message.items():
        if key == "role" or value is None:
            continue
        if key == "tool_calls":
            for index, call in enumerate(value):
                yield from _call_deltas(index, call)
        elif isinstance(value, str):
            yield from ({key: piece} for piece in _pieces(value))
        else:
            yield {key: value}


def _call_deltas(index: int, call: Event) -> Iterator[Event]:
    function = call.get("function") or {}
    arguments = function.get("arguments")
    first = {**call, "index": index, "function": {**function, "arguments": ""}}
    if not isinstance(arguments, str):
        yield {"tool_calls": [{**first, "function": function}]}
        return
    yield {"tool_calls": [first]}
    for piece in _pieces(arguments):
        yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _pieces(text: str) -> Iterator[str]:
    yield from (text[start : start + PIECE_CHARS] for start in range(0, len(text), PIECE_CHARS))
