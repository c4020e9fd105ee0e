"""Text that every reader can take: no half surrogate pairs (a04), strict JSON (a06)."""

import json
import math
import re
from collections.abc import Callable
from typing import Any, NoReturn

import orjson

from batchrun_runner.text import clean_text

DEEPEST = 100
"""Levels of lists and objects up to which a value in a reply is read: common JSON readers give up soon after."""

_ROUNDED = re.compile(rb"[0-9]{19}")
"""Integers above 64 bits, of which orjson makes floats, have at least so many digits."""


def is_too_deep(value: Any) -> bool:
    """True: more than `DEEPEST` lists and objects are nested in it, itself among them."""
    level = [value] if isinstance(value, (list, dict)) else []
    for _ in range(DEEPEST):
        if not level:
            return False
        items = (item for node in level for item in (node.values() if isinstance(node, dict) else node))
        level = [item for item in items if isinstance(item, (list, dict))]
    return bool(level)


def has_no_number(value: Any) -> bool:
    """True: NaN or Infinity, which no JSON has, stands somewhere in it. `value` is not too deep."""
    if isinstance(value, (list, dict)):
        return any(map(has_no_number, value.values() if isinstance(value, dict) else value))
    return isinstance(value, float) and not math.isfinite(value)


def clean(value: Any) -> Any:
    """The JSON value with every string in it cleaned, keys too; however deep it is."""
    return with_strings(value, clean_text)


def with_strings(value: Any, changed: Callable[[str], str]) -> Any:
    """A copy of the JSON value in which every string, keys too, is what `changed` makes of it; however deep it is."""
    holder = [value]
    unfinished: list[Any] = [holder]
    while unfinished:
        node = unfinished.pop()
        for key, item in node.items() if isinstance(node, dict) else enumerate(node):
            if isinstance(item, str):
                node[key] = changed(item)
            elif isinstance(item, list):
                node[key] = list(item)
                unfinished.append(node[key])
            elif isinstance(item, dict):
                node[key] = {changed(str(name)): inner for name, inner in item.items()}
                unfinished.append(node[key])
    return holder[0]


def loads(data: bytes | str) -> Any:
    """JSON as servers write it: half surrogate pairs are replaced, large integers stay exact. Raises ValueError, also
    for NaN and Infinity.
    """
    return clean(loads_piece(data))


def loads_body(data: bytes) -> Any:
    """The JSON of a whole answer: NaN and Infinity are floats, and bytes that are no UTF-8 are replaced, for neither
    often stands where it matters. Raises ValueError.
    """
    try:
        return loads(data)
    except ValueError:
        try:
            return clean(json.loads(data.decode("utf-8-sig", "replace"), strict=False))
        except RecursionError:
            raise ValueError("nested too deeply") from None


def loads_piece(data: bytes | str) -> Any:
    """The same of a piece of a text: half surrogate pairs stay, for the next piece may hold the other half."""
    try:
        if not _ROUNDED.search(data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")):
            return orjson.loads(data)
    except ValueError:
        pass
    return _loads(data)


def loads_leniently(data: bytes | str) -> Any:
    """The same; control characters inside strings are accepted as well (b03)."""
    return clean(_loads(data))


def _loads(data: bytes | str) -> Any:
    try:
        return json.loads(data, strict=False, parse_constant=_refuse)
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
