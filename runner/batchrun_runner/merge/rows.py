"""Rows that must change on their way into the result: another outcome, or the columns of another version."""

import json
from typing import Any

import orjson

from batchrun_api.outcomes import Outcome
from batchrun_runner.columns import in_todays_columns
from batchrun_runner.ledger.entry import ROW_SCHEMA
from batchrun_runner.ledger.stored import StoredRow
from batchrun_runner.prompt_keys import occurrence_of, sample_of
from batchrun_runner.text import clean_text


def rewritten(body: bytes, stored: StoredRow, *, index: int, key: str, outcome: Outcome, reason: str) -> bytes:
    """The row with this place and end, in today's columns. Raises ValueError where it is not a row."""
    row = _parsed(body)
    if stored.schema != ROW_SCHEMA:
        has_seconds = "seconds" in row
        row = in_todays_columns(row)
        if not has_seconds:
            # Earlier versions knew the whole time and wrote it into the ledger alone.
            row["seconds"]["total"] = stored.entry().seconds
    row["prompt_index"] = index
    row["key"] = key
    row["occurrence"] = occurrence_of(key)
    row["sample"] = sample_of(key)
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
