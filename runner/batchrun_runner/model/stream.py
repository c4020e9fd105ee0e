"""Streamed replies, merged into the chat completion object that the same server sends without streaming.

The whole body is read first: a stream only keeps gateways from losing patience, nobody looks on. Complete is what has a
finish reason or the end marker; everything else is a broken transport, and a half call is never run (b15).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from batchrun_runner.model.clean import clean, is_too_deep, loads_piece
from batchrun_runner.model.stream_calls import GrowingCalls, add_function


class BrokenStream(Exception):
    """The stream ended before the reply did, or holds what is no event; the message says which."""


_BOM = b"\xef\xbb\xbf"
_LINE_THAT_COUNTS = re.compile(rb"^data: ?(.*)|^$", re.MULTILINE)
_FIELD = re.compile(rb"^(?:data|event|id|retry)?:", re.MULTILINE)


def is_stream(headers: Mapping[str, str], content: bytes) -> bool:
    """True: server-sent events, whatever was asked for and whatever the headers say.

    Some servers do not say it in their headers, and some say it of a plain JSON object.
    """
    if content[:16].removeprefix(_BOM).lstrip().startswith((b"data:", b"event:", b": ")):
        return True
    return headers.get("content-type", "").startswith("text/event-stream") and bool(_FIELD.search(content))


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
            return clean(event)  # type: ignore[no-any-return]
        body |= {key: value for key, value in event.items() if key != "choices" and value is not None}
        parts = event.get("choices")
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and (part.get("index") or 0) == 0:
                choice.add(part)
    if not (done or choice.finish_reason):
        raise BrokenStream("the stream ended in the middle of the reply")
    if not (choice.message or choice.finish_reason):
        raise BrokenStream("the stream holds no reply")
    # Only now: the halves of a surrogate pair may come in two events.
    return clean({"usage": choice.usage, **body, "choices": [choice.as_object()]})  # type: ignore[no-any-return]


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        event = loads_piece(data)
    except ValueError as error:
        raise BrokenStream("an event of the stream is not JSON") from error
    if not isinstance(event, dict):
        raise BrokenStream("an event of the stream is no JSON object")
    return event


def _events(content: bytes) -> Iterator[bytes]:
    """The data of each event; comments and other fields are left out. A last event without its blank line counts."""
    data: list[bytes] = []
    lines = content.removeprefix(_BOM).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    for line in _LINE_THAT_COUNTS.finditer(lines):  # one at a time, for there may be millions of comments
        if line[1] is not None:
            data.append(line[1])
        elif data:
            yield b"\n".join(data).strip()
            data = []
    if data:
        yield b"\n".join(data).strip()


class _Choice:
    """One choice as it grows."""

    def __init__(self) -> None:
        self.message: dict[str, Any] = {}
        self.finish_reason: str | None = None
        self.usage: Any = None
        """Some servers put it here."""
        self.others: dict[str, Any] = {}
        self._calls = GrowingCalls()

    def add(self, part: Mapping[str, Any]) -> None:
        delta = part.get("delta")
        if not isinstance(delta, dict):
            delta = part.get("message")
        for key, value in delta.items() if isinstance(delta, dict) else ():
            self._add_field(key, value)
        self.finish_reason = part.get("finish_reason") or self.finish_reason
        self.usage = part.get("usage") or self.usage
        if part.get("error"):
            self.others["error"] = part["error"]

    def as_object(self) -> dict[str, Any]:
        message = dict(self.message)
        if self._calls.calls:
            message["tool_calls"] = self._calls.calls
        return {**self.others, "index": 0, "message": message, "finish_reason": self.finish_reason}

    def _add_field(self, key: str, value: Any) -> None:
        if key in {"content", "tool_calls"} and isinstance(value, dict):
            value = [value]
        known = self.message.setdefault(key, None)
        if key == "tool_calls":
            self._calls.add(value)
        elif key == "function_call" and isinstance(value, dict):
            self.message[key] = known if isinstance(known, dict) else {}
            add_function(self.message[key], value)
        elif key == "role":
            self.message[key] = value or known
        elif value is not None:
            self.message[key] = _joined(known, value)


_GROWING = frozenset({"text", "content", "thinking", "summary", "data"})
"""Fields of a part that come in pieces; of the others the last one counts."""


def _joined(known: Any, more: Any) -> Any:
    """Two pieces of a text, of a list of parts, or of one part; a text that goes on in parts becomes one of them."""
    if isinstance(known, str) and isinstance(more, str):
        return known + more
    if isinstance(known, dict) and isinstance(more, dict) and not is_too_deep(more):
        _add_piece(known, more)
        return known
    if not known and not isinstance(more, list):
        return more
    if more == "":
        return known
    parts, pieces = _as_parts(known), _as_parts(more)
    if parts is None or pieces is None:
        return more
    for piece in pieces:
        _add_part(parts, piece)
    return parts


def _as_parts(value: Any) -> list[Any] | None:
    """None: the value is neither a text nor a list of parts."""
    if isinstance(value, list):
        return value
    if not value:
        return []
    return [{"type": "text", "text": value}] if isinstance(value, str) else None


def _add_part(parts: list[Any], piece: Any) -> None:
    """Lists of reasoning details or content parts: pieces of one part carry its index, or follow it."""
    target = _part_of(parts, piece)
    if target is None:
        parts.append(piece)
    else:
        _add_piece(target, piece)


def _add_piece(part: dict[str, Any], piece: Mapping[str, Any]) -> None:
    for key, value in piece.items():
        if key in _GROWING and part.get(key) and value:
            part[key] = _joined(part[key], value)
        elif key not in part or (value is not None and value != ""):
            part[key] = value


def _part_of(parts: list[Any], piece: Any) -> dict[str, Any] | None:
    """The part that the piece belongs to. Another id is another part, even where the index is the same."""
    if not isinstance(piece, dict) or is_too_deep(piece):
        return None
    index = piece.get("index")
    for part in reversed(parts if index is not None else parts[-1:]):
        same_kind = isinstance(part, dict) and part.get("type") == piece.get("type") and part.get("index") == index
        if same_kind and not (part.get("id") and piece.get("id") and part["id"] != piece["id"]):
            return part  # type: ignore[no-any-return]
    return None
