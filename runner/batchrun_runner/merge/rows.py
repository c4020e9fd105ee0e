"""Rows that must change on their way into the result: another outcome, or the columns of another version."""

import json
from datetime import UTC, datetime
from typing import Any

import orjson

from batchrun_api.outcomes import Outcome
from batchrun_runner.columns import NULLABLE_FLOAT, ROW_FEATURES, Feature
from batchrun_runner.dataset.keys import occurrence_of
from batchrun_runner.ledger.entry import ROW_SCHEMA
from batchrun_runner.ledger.stored import StoredRow
from batchrun_runner.text import clean_text

_EMPTY_JSON = {"tools": "[]", "sampling": "{}", "extra": "{}"}


def rewritten(body: bytes, stored: StoredRow, *, index: int, key: str, outcome: Outcome, reason: str) -> bytes:
    """The row with this place and end, in today's columns. Raises ValueError where it is not a row."""
    row = _parsed(body)
    if stored.schema != ROW_SCHEMA:
        row = _in_todays_columns(row, stored)
    row["prompt_index"] = index
    row["key"] = key
    row["occurrence"] = occurrence_of(key)
    row["outcome"] = str(outcome)
    row["reason"] = reason
    if outcome is not Outcome.DISCARDED:
        row["completed"] = outcome is Outcome.COMPLETED
    try:
        return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # an integer beyond 64 bits, a half surrogate
        text = json.dumps(row, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return clean_text(text).encode() + b"\n"


def _parsed(body: bytes) -> dict[str, Any]:
    row = orjson.loads(body)
    if not isinstance(row, dict):
        raise ValueError("a row is a JSON object")
    return row


def _in_todays_columns(row: dict[str, Any], stored: StoredRow) -> dict[str, Any]:
    shaped: dict[str, Any] = _shaped(row, ROW_FEATURES)
    shaped["metadata"]["timestamp"] = _with_offset(shaped["metadata"]["timestamp"])
    shaped["outcome"] = str(stored.outcome)
    shaped.update({name: empty for name, empty in _EMPTY_JSON.items() if name not in row})
    if "seconds" not in row:
        # Earlier versions knew the whole time and wrote it into the ledger alone.
        shaped["seconds"]["total"] = stored.entry().seconds
    return shaped


def _shaped(value: Any, feature: Feature) -> Any:
    """The value in the feature's type: what is missing is zero or empty, what is too much goes."""
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
