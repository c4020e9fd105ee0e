"""From lines to prompts: strict JSON, the right shape, and a reason and a fix where either is missing."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import orjson

from batchrun_runner.dataset.faults import RowFault, kind_of
from batchrun_runner.dataset.keys import KeyMaker
from batchrun_runner.dataset.lines import ROW_LIMIT_BYTES, Line, split_lines
from batchrun_runner.dataset.own_settings import OWN_FIELDS, RowBounds, own_settings
from batchrun_runner.prompt_keys import without_sample
from batchrun_runner.records import PromptRow
from batchrun_runner.text import clean_text, one_line

_KNOWN = frozenset({"prompt", "image", "docker_image", "cwd", "id"})
"""Of nearly all rows; with other keys, `own_settings.OWN_FIELDS` among them, a row is parsed slowly and exactly."""
_NO_BOUNDS = RowBounds()
_TEXT_FIELDS = ("image", "docker_image", "cwd", "id")
_ACTING_TEXTS = ("prompt", "image", "cwd", "id")
_LONGEST_NAME_CHARS = 1024
_SHOWN_CHARS = 200


@dataclass(frozen=True, slots=True)
class InvalidRow:
    """A line that is not a prompt."""

    line: int
    reason: str
    fix: str
    shown: str = ""
    """The line's first characters."""

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}; {self.fix}"


def read_rows(
    blocks: Iterable[bytes], limit_bytes: int = ROW_LIMIT_BYTES, bounds: RowBounds = _NO_BOUNDS
) -> Iterator[PromptRow | InvalidRow]:
    """Every row in file order, from UTF-8 blocks. Valid rows are counted from 0."""
    keys, works = KeyMaker(), KeyMaker()
    index = 0
    for line in split_lines(blocks, limit_bytes):
        try:
            fields, acting = _fields(line, limit_bytes, bounds)
        except RowFault as fault:
            yield InvalidRow(line.number, fault.reason, fault.fix, _shown(line))
            continue
        acting |= {name: fields[name] for name in _ACTING_TEXTS}
        key = keys.key(**acting)
        if "collect" in fields:
            acting.pop("verify", None)
            fields["work"] = without_sample(works.key(**acting))
        yield PromptRow(index=index, key=key, **fields)
        index += 1


def _fields(line: Line, limit_bytes: int, bounds: RowBounds) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of a PromptRow besides index and key, cleaned; and what acts besides the texts."""
    if line.text is None:
        raise RowFault(
            f"the row has {line.length_bytes} bytes, more than the limit of {limit_bytes}",
            "shorten it or move its data into files",
        )
    row = _parsed(line.text)
    if not isinstance(row, dict):
        raise RowFault(f"it is a JSON {kind_of(row)}, not an object", _shape_fix(row))
    prompt = _prompt(row)
    texts = {name: _text(row, name) if name in row else "" for name in _TEXT_FIELDS}
    fields: dict[str, Any] = {
        "prompt": prompt,
        "image": texts["image"] or texts["docker_image"],
        "cwd": texts["cwd"],
        "id": texts["id"],
        "extra": "{}",
    }
    if row.keys() <= _KNOWN:
        return fields, {}
    own = own_settings(row, bounds)
    unknown = {name: value for name, value in row.items() if name not in _KNOWN and name not in OWN_FIELDS}
    if unknown:
        fields["extra"] = _extra(unknown)
    return fields | own.fields, own.acting


def _parsed(text: bytes) -> Any:
    try:
        row = orjson.loads(text)
    except orjson.JSONDecodeError:
        return _parsed_slowly(text)
    if isinstance(row, dict) and (not row.keys() <= _KNOWN or _may_repeat_a_key(text, row)):
        # orjson turns integers beyond 64 bits into floats; unknown keys are given back as they came.
        # Of a key that is given twice it tells the last value only.
        return _parsed_slowly(text)
    return row


def _may_repeat_a_key(text: bytes, row: dict[str, Any]) -> bool:
    """Quotes within a string have a backslash before them, so only keys and whole values are found."""
    return any(text.count(b'"%s"' % name.encode()) > 1 for name in row)


def _parsed_slowly(text: bytes) -> Any:
    """The standard library's parser: takes half surrogates, keeps big integers, says where a fault is."""
    try:
        return json.loads(
            text.decode(), parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_without_doubles
        )
    except UnicodeDecodeError as error:
        raise RowFault(f"byte {error.start + 1} is not UTF-8", "save the data set as UTF-8") from error
    except json.JSONDecodeError as error:
        raise _syntax_fault(error) from error
    except RecursionError as error:
        raise RowFault("it is nested too deeply", "make it flatter") from error
    except ValueError as error:  # an integer with more digits than Python converts
        raise RowFault(f"it holds a number that cannot be read ({error})", "write it as a string") from error


def _syntax_fault(error: json.JSONDecodeError) -> RowFault:
    column = f"at column {error.colno}"
    if error.msg == "Extra data":
        return RowFault(f"more text follows the JSON value {column}", "put each JSON object on a line of its own")
    if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated string"):
        return RowFault(f"the JSON is cut off ({error.msg} {column})", "write the whole object on one line")
    return RowFault(f"it is not JSON ({error.msg} {column})", "correct the JSON")


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise RowFault(f"it has the key {one_line(name, 60)!r} twice", "keep one of them")
        found[name] = value
    return found


def _refuse_constant(word: str) -> NoReturn:
    raise RowFault(f"{word} is not JSON", "use null or a number")


def _finite(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise RowFault(f"the number {digits[:40]} is too large", "write it as a string")
    return value


def _prompt(row: dict[str, Any]) -> str:
    if "prompt" not in row:
        near = next((name for name in row if name.strip().lower() == "prompt"), None)
        hint = f" (found `{near}`)" if near else ""
        raise RowFault(f"it has no key `prompt`{hint}", "name the text `prompt`")
    prompt = row["prompt"]
    if not isinstance(prompt, str):
        raise RowFault(f"`prompt` is {kind_of(prompt, article=True)}, not a string", "give the text as a JSON string")
    if not prompt.strip():
        raise RowFault("`prompt` is empty", "give it a text or remove the row")
    return clean_text(prompt)


def _text(row: dict[str, Any], name: str) -> str:
    value = row[name]
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RowFault(f"`{name}` is {kind_of(value, article=True)}, not a string", f"quote `{name}` or remove it")
    if len(value) > _LONGEST_NAME_CHARS:
        raise RowFault(f"`{name}` has {len(value)} characters, more than {_LONGEST_NAME_CHARS}", "shorten it")
    return clean_text(value)


def _extra(unknown: dict[str, Any]) -> str:
    try:
        return clean_text(json.dumps(unknown, ensure_ascii=False, separators=(",", ":"), allow_nan=False))
    except RecursionError as error:
        raise RowFault("it is nested too deeply", "make it flatter") from error


def _shape_fix(row: object) -> str:
    if isinstance(row, list):
        return 'JSON lines hold one object like {"prompt": "..."} on each line, without a list around them'
    return 'write an object like {"prompt": "..."}'


def _shown(line: Line) -> str:
    return (line.text or b"")[: _SHOWN_CHARS * 4].decode(errors="replace")[:_SHOWN_CHARS]
