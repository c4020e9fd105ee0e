"""Streamed replies, merged into the chat completion object that the same server sends without streaming.

The whole body is read first: a stream only keeps gateways from losing patience, nobody looks on. Complete is what has a
finish reason or the end marker; everything else is a broken transport, and a half call is never run (b15).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from batchrun_runner.model.clean import loads


class BrokenStream(Exception):
    """The stream ended before the reply did, or holds what is no event; the message says which."""


def is_stream(headers: Mapping[str, str], content: bytes) -> bool:
    """True: server-sent events, whatever was asked for; some servers do not say so in their headers."""
    kind = headers.get("content-type", "")
    return kind.startswith("text/event-stream") or content[:16].lstrip().startswith((b"data:", b"event:", b": "))


def merge(content: bytes) -> dict[str, Any]:
    """The chat completion object, or the first object with an `error` in it. Raises BrokenStream."""
    body: dict[str, Any] = {}
    choice = _Choice()
    done = False
    for data in _events(content):
        if data == b"[DONE]":
            done = True
            break
        event = _parsed(data)
        if event.get("error") or ("choices" not in event and "message" in event):
            return event
        body |= {key: value for key, value in event.items() if key != "choices" and value is not None}
        for part in event.get("choices") or ():
            if isinstance(part, dict) and (part.get("index") or 0) == 0:
                choice.add(part)
    if not (done or choice.finish_reason):
        raise BrokenStream("the stream ended in the middle of the reply")
    if not choice.message:
        raise BrokenStream("the stream holds no reply")
    return {**body, "choices": [choice.as_object()]}


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        event = loads(data)
    except ValueError as error:
        raise BrokenStream("an event of the stream is not JSON") from error
    if not isinstance(event, dict):
        raise BrokenStream("an event of the stream is no JSON object")
    return event


def _events(content: bytes) -> Iterator[bytes]:
    """The data of each event; comments and other fields are left out. A last event without its blank line counts."""
    data: list[bytes] = []
    for line in [*content.splitlines(), b""]:
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif not line and data:
            yield b"\n".join(data).strip()
            data = []


class _Choice:
    """One choice as it grows."""

    def __init__(self) -> None:
        self.message: dict[str, Any] = {}
        self.finish_reason: str | None = None
        self.others: dict[str, Any] = {}
        self._calls: list[dict[str, Any]] = []
        self._call_at: dict[int, dict[str, Any]] = {}

    def add(self, part: Mapping[str, Any]) -> None:
        delta = part.get("delta")
        if not isinstance(delta, dict):
            delta = part.get("message")
        for key, value in delta.items() if isinstance(delta, dict) else ():
            self._add_field(key, value)
        self.finish_reason = part.get("finish_reason") or self.finish_reason
        if part.get("error"):
            self.others["error"] = part["error"]

    def as_object(self) -> dict[str, Any]:
        message = dict(self.message)
        if self._calls:
            message["tool_calls"] = self._calls
        return {**self.others, "index": 0, "message": message, "finish_reason": self.finish_reason}

    def _add_field(self, key: str, value: Any) -> None:
        if key == "tool_calls":
            self.message.setdefault(key, None)
            for position, call in enumerate(value if isinstance(value, list) else ()):
                if isinstance(call, dict):
                    self._add_call(call, position)
        elif isinstance(value, list) and isinstance(self.message.get(key), list):
            _add_parts(self.message[key], value)
        elif isinstance(value, list):
            self.message[key] = []
            _add_parts(self.message[key], value)
        elif isinstance(value, str) and isinstance(self.message.get(key), str) and key != "role":
            self.message[key] += value
        elif value is not None or key not in self.message:
            self.message[key] = value

    def _add_call(self, delta: dict[str, Any], position: int) -> None:
        """By index; where servers give none, or one index to two calls, another id is another call."""
        index = delta.get("index")
        index = index if isinstance(index, int) else position
        call = self._call_at.get(index)
        if call is None or (delta.get("id") and call.get("id") and delta["id"] != call["id"]):
            call = self._call_at[index] = {"function": {}}
            self._calls.append(call)
        for key, value in delta.items():
            if key == "function" and isinstance(value, dict):
                _add_function(call["function"], value)
            elif key != "index" and value is not None:
                call[key] = value


def _add_function(function: dict[str, Any], delta: Mapping[str, Any]) -> None:
    name, arguments = delta.get("name"), delta.get("arguments")
    if isinstance(name, str) and name != function.get("name"):  # some servers repeat it in each piece
        function["name"] = function.get("name", "") + name
    if isinstance(arguments, str) and isinstance(function.get("arguments"), str):
        function["arguments"] += arguments
    elif arguments is not None:
        function["arguments"] = arguments


def _add_parts(parts: list[Any], more: list[Any]) -> None:
    """Lists of reasoning details or content parts: pieces of one part carry its index, or follow it."""
    for piece in more:
        target = _part_of(parts, piece)
        if target is None:
            parts.append(dict(piece) if isinstance(piece, dict) else piece)
            continue
        for key, value in piece.items():
            grows = isinstance(value, str) and isinstance(target.get(key), str)
            if grows and key in {"text", "thinking", "summary", "data"}:
                target[key] += value
            elif value is not None:
                target[key] = value


def _part_of(parts: list[Any], piece: Any) -> dict[str, Any] | None:
    if not isinstance(piece, dict):
        return None
    index = piece.get("index")
    candidates = parts if index is not None else parts[-1:]
    for part in candidates:
        if isinstance(part, dict) and part.get("type") == piece.get("type") and part.get("index") == index:
            return part
    return None
