"""Tool calls in normal form: a unique id, a name, arguments or what is wrong with them. Never repaired by guessing."""

import hashlib
import json
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from batchrun_runner.model.clean import DEEPEST, clean, dumps, has_no_number, is_too_deep, loads_leniently
from batchrun_runner.text import clean_text

UNPARSED_KEY = "unparsed_arguments"
"""Arguments that are no JSON object are sent back and stored under this key, so that they are valid JSON (b01)."""

_ODD_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_SHOWN_CHARS = 200
_TOO_DEEP = f"the arguments are nested more than {DEEPEST} levels deep"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a reply."""

    id: str
    """Unique within the conversation."""
    name: str
    """As the model wrote it; may be empty or unknown."""
    arguments: dict[str, Any] | None
    """None: they could not be parsed, `error` says why."""
    error: str
    arguments_json: str
    """The arguments as one JSON object; what could not be parsed stands under `unparsed_arguments`."""
    extra: Mapping[str, Any]
    """Keys of the call beyond id, type and function, sent back as they came (signatures)."""

    def as_sent(self) -> dict[str, Any]:
        """The call as it is sent back: strict servers refuse names that no function can have."""
        name = _ODD_IN_NAMES.sub("_", self.name)[:64] or "unnamed"
        return {**self.extra, **self._form(name)}

    def as_stored(self) -> dict[str, Any]:
        """The call as a trajectory holds it."""
        return self._form(self.name)

    def _form(self, name: str) -> dict[str, Any]:
        return {"id": self.id, "type": "function", "function": {"name": name, "arguments": self.arguments_json}}


def read_calls(
    message: Mapping[str, Any], required: Mapping[str, bool], taken: Container[str], salt: str
) -> tuple[ToolCall, ...]:
    """The calls of a message; an empty or null list means none (b05).

    `required`: by tool name, whether it has arguments that must be given. `taken`: ids that the conversation has used.
    `salt` makes fresh ids differ between turns.
    """
    calls: list[ToolCall] = []
    used: set[str] = set()
    for number, raw in enumerate(_raw_calls(message)):
        given = raw.get("id")
        call_id = clean_text(given) if isinstance(given, str) else ""
        if not call_id or call_id in used or call_id in taken:
            call_id = next(fresh for fresh in _fresh_ids(salt, number) if fresh not in used and fresh not in taken)
        used.add(call_id)
        calls.append(_read_call(raw, call_id, required))
    return tuple(calls)


def _raw_calls(message: Mapping[str, Any]) -> list[dict[str, Any]]:
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        return [call if isinstance(call, dict) else {} for call in calls]
    legacy = message.get("function_call")
    return [{"function": legacy}] if isinstance(legacy, dict) else []


def _fresh_ids(salt: str, number: int) -> Iterator[str]:
    """Nine letters and digits: the one form that every server takes (Mistral asks for exactly this)."""
    attempt = 0
    while True:
        yield hashlib.sha256(f"{salt}/{number}/{attempt}".encode()).hexdigest()[:9]
        attempt += 1


def _read_call(raw: Mapping[str, Any], call_id: str, required: Mapping[str, bool]) -> ToolCall:
    function = raw.get("function")
    if not isinstance(function, dict):
        function = {}
    name = function.get("name")
    name = clean_text(name) if isinstance(name, str) else ""
    arguments, error = parse_arguments(function.get("arguments"), needed=required.get(name, False))
    ours = {"id", "type", "function", "index"}
    extra = {key: clean(value) for key, value in raw.items() if key not in ours and not is_too_deep(value)}
    as_json = _arguments_json(function.get("arguments"), arguments)
    return ToolCall(call_id, name, arguments, error, as_json, extra)


def parse_arguments(raw: object, *, needed: bool) -> tuple[dict[str, Any] | None, str]:
    """The arguments as an object and "", or None and what is wrong with them.

    An object is taken as it is, JSON encoded twice is decoded twice, empty means none where none is `needed` (b02).
    """
    if raw is None or raw == "" or (isinstance(raw, str) and not raw.strip()):
        return (None, "the arguments are empty, and this tool needs some") if needed else ({}, "")
    if is_too_deep(raw):
        return None, _TOO_DEEP
    if isinstance(raw, dict):
        return (None, "the arguments hold NaN or Infinity") if has_no_number(raw) else (clean(raw), "")
    if not isinstance(raw, str):
        return None, f"the arguments are a JSON {_kind(raw)}, not an object"
    try:
        value = loads_leniently(raw)
        if isinstance(value, str) and value.lstrip().startswith("{"):
            value = loads_leniently(value)
    except ValueError as error:
        return None, f"the arguments are not valid JSON ({_place(error)}): {_shown(raw)}"
    if not isinstance(value, dict):
        return None, f"the arguments are a JSON {_kind(value)}, not an object: {_shown(raw)}"
    return (None, f"{_TOO_DEEP}: {_shown(raw)}") if is_too_deep(value) else (value, "")


def _arguments_json(raw: object, arguments: dict[str, Any] | None) -> str:
    """As the model wrote them where that is a JSON object, for what was said is not reworded."""
    if arguments is None:
        if not isinstance(raw, str):
            raw = f"({_TOO_DEEP})" if is_too_deep(raw) else json.dumps(raw, ensure_ascii=False)
        return dumps({UNPARSED_KEY: clean_text(raw)}).decode()
    if isinstance(raw, str):
        try:
            if isinstance(json.loads(raw, parse_constant=_no_json), dict) and clean_text(raw) == raw:
                return raw if "\\ud" not in raw.lower() else dumps(arguments).decode()
        except ValueError:
            pass
    return dumps(arguments).decode()


def _no_json(word: str) -> None:
    raise ValueError(word)


def _kind(value: object) -> str:
    if value is None:
        return "null"
    kinds: dict[type, str] = {bool: "boolean", int: "number", float: "number", str: "string", list: "list"}
    return kinds.get(type(value), "value")


def _place(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at character {error.pos}"
    return str(error)


def _shown(raw: str) -> str:
    text = clean_text(raw)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}... ({len(text)} characters)"
