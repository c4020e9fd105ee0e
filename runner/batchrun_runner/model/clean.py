"""Text that every reader can take: no half surrogate pairs (a04), strict JSON (a06)."""

import json
from typing import Any, NoReturn

import orjson

from batchrun_runner.text import clean_text


def clean(value: Any) -> Any:
    """The JSON value with every string in it cleaned, keys too."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(str(key)): clean(item) for key, item in value.items()}
    return value


def loads(data: bytes | str) -> Any:
    """JSON as servers write it: half surrogate pairs are replaced. Raises ValueError, also for NaN and Infinity."""
    try:
        return orjson.loads(data)
    except ValueError:
        return loads_leniently(data)


def loads_leniently(data: bytes | str) -> Any:
    """The same; control characters inside strings are accepted as well (b03), and large integers stay exact."""
    try:
        return clean(json.loads(data, strict=False, parse_constant=_refuse))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def dumps(value: Any) -> bytes:
    """Strict JSON in valid UTF-8. Raises TypeError for what is no JSON value."""
    try:
        return orjson.dumps(value)
    except TypeError:
        # Half surrogates, or integers above 64 bits.
        return json.dumps(clean(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON")
