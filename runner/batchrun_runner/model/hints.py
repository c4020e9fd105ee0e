"""How long a server asks to wait, in every form that is in use (b13)."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

_IN_WORDS = re.compile(
    r"(?:try again|retry)\w* (?:in|after) (\d+(?:\.\d+)?) ?(ms|milliseconds?|s\b|seconds?|m\b|minutes?)", re.IGNORECASE
)
_UNIT_SECONDS = {"ms": 0.001, "mi": 60.0, "m": 60.0, "s": 1.0}
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?")
_RESET = re.compile(r"(?:x-|anthropic-)?ratelimit(?:-(\w+))?-reset(?:-(\w+))?")
_EPOCH = 1e9
"""A number above this is a time and no duration; above a thousand times as much, in milliseconds."""


def wait_hint_seconds(
    headers: Mapping[str, str], error: Mapping[str, Any] | None, words: str, now: float, sent: bytes = b""
) -> float | None:
    """How long a server asks to wait; None: it does not say, or says rubbish. `now`: seconds since the epoch.

    Looked for in this order: `retry-after-ms`, `retry-after` in seconds or as a date, a field of the error or of its
    metadata, words in the message that do not stand in what was `sent`, `...ratelimit...-reset...` of a limit that is
    used up.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    header = headers.get("retry-after")
    if header is not None:
        seconds = _number(header)
        return seconds if seconds is not None else _seconds_until(header, now)
    for hint in (_in_fields(error or {}), _in_words(words, sent)):
        if hint is not None:
            return hint
    return max(_resets(headers, now), default=None)


def _in_fields(error: Mapping[str, Any]) -> float | None:
    metadata = error.get("metadata")
    for fields in (error, metadata if isinstance(metadata, dict) else {}):
        for key in ("retry_after", "retry_after_seconds", "retryDelay"):
            seconds = _number(str(fields.get(key, "")).removesuffix("s"))
            if seconds is not None:
                return seconds
    return None


def _in_words(words: str, sent: bytes) -> float | None:
    found = next((found for found in _IN_WORDS.finditer(words) if found.group().encode() not in sent), None)
    if found is None:
        return None
    unit = found.group(2).lower()
    if unit.startswith("milli"):
        unit = "ms"
    return float(found.group(1)) * _UNIT_SECONDS.get(unit[:2], _UNIT_SECONDS.get(unit[:1], 1.0))


def _resets(headers: Mapping[str, str], now: float) -> Iterator[float]:
    """When limits are renewed. Servers send this of every limit, so one with something left is not what refused."""
    for name, value in headers.items():
        if _RESET.fullmatch(name) and headers.get(name.replace("reset", "remaining"), "0").strip() == "0":
            seconds = _until_reset(value.strip(), now)
            if seconds is not None:
                yield seconds


def _until_reset(value: str, now: float) -> float | None:
    number = _number(value)
    if number is not None:
        if number < _EPOCH:
            return number
        return max(0.0, (number / 1000 if number > _EPOCH * 1000 else number) - now)
    duration = _DURATION.fullmatch(value)
    if value and duration is not None:
        hours, minutes, seconds, milliseconds = (float(part or 0) for part in duration.groups())
        return hours * 3600 + minutes * 60 + seconds + milliseconds / 1000
    try:
        return max(0.0, datetime.fromisoformat(value).timestamp() - now)
    except (ValueError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        value = float(text) if text else -1.0
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


def _seconds_until(date: str, now: float) -> float | None:
    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return None
