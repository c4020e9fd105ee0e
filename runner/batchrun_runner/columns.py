"""The columns of a result row: what every row of every origin has, in this order and with these types."""

import json
from datetime import UTC, datetime
from typing import Any

from batchrun_api.outcomes import Outcome
from batchrun_api.toolsets import ALL_TOOLS

Feature = str | list[Any] | dict[str, Any]
"""A type name of the datasets library, a list of one feature, or a struct by field name."""

NULLABLE_FLOAT = "float64 or null"
"""The one type that the library has no name for: its columns may all be null."""

_CALL: Feature = {"id": "string", "type": "string", "function": {"name": "string", "arguments": "string"}}
_STAT: Feature = {"count": "int64", "success": "int64", "failure": "int64"}

ROW_FEATURES: dict[str, Feature] = {
    "prompt_index": "int64",
    "conversations": [{"from": "string", "value": "string", "tool_calls": [_CALL]}],
    "metadata": {"batch_num": "int64", "timestamp": "string", "model": "string"},
    "completed": "bool",
    "partial": "bool",
    "api_calls": "int64",
    "toolsets_used": ["string"],
    "tool_stats": dict.fromkeys(ALL_TOOLS, _STAT),
    "tool_error_counts": dict.fromkeys(ALL_TOOLS, "int64"),
    "own_tool_stats": [{"name": "string", "count": "int64", "success": "int64", "failure": "int64"}],
    "outcome": "string",
    "reason": "string",
    "message": "string",
    "key": "string",
    "occurrence": "int64",
    "sample": "int64",
    "id": "string",
    "usage": {
        "prompt_tokens": "int64",
        "completion_tokens": "int64",
        "reasoning_tokens": "int64",
        "cached_tokens": "int64",
        "total_tokens": "int64",
        "calls_without_usage": "int64",
        "shortened_prompts": "int64",
    },
    "seconds": {"total": "float64", "model": "float64", "tools": "float64", "sandbox": "float64"},
    "tools": "string",
    "sampling": "string",
    "invalid_tool_calls": "int64",
    "reward": NULLABLE_FLOAT,
    "verification": {
        "ran": "bool",
        "exit_code": "int64",
        "timed_out": "bool",
        "output": "string",
        "seconds": "float64",
    },
    "artifacts": {
        "place": "string",
        "work": "string",
        "files": [{"path": "string", "size_bytes": "int64", "mode": "int64", "sha256": "string"}],
        "has_output": "bool",
        "left_out": [{"path": "string", "why": "string"}],
        "more_left_out": "int64",
    },
    "sandbox": {"image": "string", "boot_id": "string"},
    "config_digest": "string",
    "extra": "string",
}
"""Every row has these keys in this order with these types. Only `reward` may be null."""

_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "int64": (int,),
    "bool": (bool,),
    "float64": (float,),
    NULLABLE_FLOAT: (float, type(None)),
}


def row_problems(value: Any, feature: Feature | None = None, path: str = "row") -> list[str]:
    """What is wrong with a row's keys, their order or their types; empty when nothing is."""
    feature = ROW_FEATURES if feature is None else feature
    if isinstance(feature, str):
        is_right = isinstance(value, _PYTHON_TYPES[feature]) and (feature == "bool" or not isinstance(value, bool))
        return [] if is_right else [f"{path} is {type(value).__name__}, not {feature}"]
    if isinstance(feature, list):
        if not isinstance(value, list):
            return [f"{path} is {type(value).__name__}, not a list"]
        return [problem for i, item in enumerate(value) for problem in row_problems(item, feature[0], f"{path}[{i}]")]
    if not isinstance(value, dict):
        return [f"{path} is {type(value).__name__}, not an object"]
    if list(value) != list(feature):
        return [f"{path} has the keys {list(value)}, not {list(feature)}"]
    return [problem for name, item in value.items() for problem in row_problems(item, feature[name], f"{path}.{name}")]


_EMPTY_JSON = {"tools": "[]", "sampling": "{}", "extra": "{}"}


def in_todays_columns(row: dict[str, Any]) -> dict[str, Any]:
    """A row of another version or of the reference: what it lacks is zero or empty, what is too much goes.

    Raises ValueError, TypeError or AttributeError where a value cannot be of its column's type.
    """
    shaped: dict[str, Any] = _shaped(row, ROW_FEATURES)
    shaped["metadata"]["timestamp"] = _with_offset(shaped["metadata"]["timestamp"])
    shaped.update({name: empty for name, empty in _EMPTY_JSON.items() if name not in row})
    if "outcome" not in row:
        shaped["outcome"] = str(outcome_of_reference(row))
    return shaped


def outcome_of_reference(row: dict[str, Any]) -> Outcome:
    """How a prompt ended, by what the reference writes."""
    if row.get("failed"):
        return Outcome.FAILED
    return Outcome.COMPLETED if row.get("completed") else Outcome.TRUNCATED


def _shaped(value: Any, feature: Feature) -> Any:
    if isinstance(feature, dict):
        given = value if isinstance(value, dict) else {}
        return {name: _shaped(given.get(name), item) for name, item in feature.items()}
    if isinstance(feature, list):
        return [_shaped(item, feature[0]) for item in value] if isinstance(value, list) else []
    if feature == "string":
        return _text(value)
    if feature == NULLABLE_FLOAT:
        return None if value is None else float(value)
    if feature == "float64":
        return float(value or 0.0)
    return bool(value) if feature == "bool" else int(value or 0)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _with_offset(text: str) -> str:
    """The reference writes times without an offset; they are taken for UTC. What is no time stays."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).isoformat(timespec="microseconds")
