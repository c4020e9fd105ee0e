"""YAML with the values that kubectl makes of it: go-yaml's rules for plain words, then JSON, which has fewer kinds.

The rules are those of go-yaml v2 (`resolve.go`), for it is what sigs.k8s.io/yaml and so kubectl and helm read with:
`yes` and `y` are booleans, `010` and `0o10` are eight, `1_000` is a thousand, `1e3` is a number and `12:30` a text.
"""

import base64
import binascii
import math
import re
from typing import Any, NoReturn

import yaml
from yaml.constructor import ConstructorError

_PLAIN = "!plain"
"""Tag of a scalar without quotes and without a tag of its own."""
_STANDARD = "tag:yaml.org,2002:"
_WORDS: dict[str, Any] = {
    **dict.fromkeys(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"], True),
    **dict.fromkeys(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"], False),
    **dict.fromkeys(["", "~", "null", "Null", "NULL"]),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], math.nan),
    **dict.fromkeys([".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"], math.inf),
    **dict.fromkeys(["-.inf", "-.Inf", "-.INF"], -math.inf),
}
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_DOT_FLOAT = re.compile(r"\.[0-9](?:_?[0-9])*(?:[eE][-+]?[0-9](?:_?[0-9])*)?")
_INT64 = range(-(2**63), 2**63)
_KINDS: dict[str, tuple[type, ...]] = {"int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),)}
_TEXTS = frozenset({"str", "timestamp"})
_COLLECTIONS = frozenset({"map", "seq", "set", "omap", "pairs"})


class Loader(yaml.SafeLoader):
    """Composes nodes; what a plain word means is decided by `json_value`."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        """See yaml.resolver."""
        if kind is yaml.ScalarNode and implicit[0]:
            return _PLAIN
        return str(super().resolve(kind, value, implicit))  # type: ignore[no-untyped-call]


def json_value(node: yaml.Node, _within: frozenset[int] = frozenset()) -> Any:
    """The JSON value of a node that `Loader` composed. Raises yaml.MarkedYAMLError where kubectl finds none."""
    if id(node) in _within:
        _refuse(node, "it contains itself")
    within = _within | {id(node)}
    kind = node.tag.removeprefix(_STANDARD)
    if isinstance(node, yaml.ScalarNode):
        return _json_scalar(node, kind)
    if kind not in _COLLECTIONS:
        _refuse(node, f"the tag {node.tag} is not known")
    if isinstance(node, yaml.SequenceNode):
        return [json_value(child, within) for child in node.value]
    return _mapping(node, within)


def key_text(node: yaml.Node) -> str | None:
    """What a key is in JSON (`5` is "5", `yes` is "true"); None where it can be none."""
    if not isinstance(node, yaml.ScalarNode):
        return None
    try:
        value = _scalar(node, node.tag.removeprefix(_STANDARD))
    except yaml.MarkedYAMLError:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value in _INT64:
        return str(value)
    return value if isinstance(value, str) else None


def _mapping(node: Any, within: frozenset[int]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, child in node.value:
        if _is_merge(key):
            for other in reversed(child.value) if isinstance(child, yaml.SequenceNode) else [child]:
                if not isinstance(other, yaml.MappingNode):
                    _refuse(other, "<< wants an object, or a list of objects")
                result |= json_value(other, within)
            continue
        name = key_text(key)
        if name is None:
            _refuse(key, "a key must be a plain word")
        result[name] = json_value(child, within)
    return result


def _is_merge(key: yaml.Node) -> bool:
    return isinstance(key, yaml.ScalarNode) and key.value == "<<" and key.tag in {_PLAIN, f"{_STANDARD}merge"}


def _json_scalar(node: yaml.ScalarNode, kind: str) -> Any:
    value = _scalar(node, kind)
    if isinstance(value, float):
        if not math.isfinite(value):
            _refuse(node, f"{node.value} is a number that JSON does not have")
        # JSON has one kind of number: 10.0 is 10 there.
        return int(value) if value.is_integer() and int(value) in _INT64 else value
    if isinstance(value, int) and not isinstance(value, bool) and value not in _INT64:
        return float(value)
    return value


def _scalar(node: yaml.ScalarNode, kind: str) -> Any:
    text = _whole_characters(str(node.value))
    if kind == _PLAIN:
        return _plain(text)
    if kind in _TEXTS:
        return text
    if kind == "binary":
        try:
            return base64.b64decode("".join(text.split()), validate=True).decode()
        except (binascii.Error, ValueError):
            _refuse(node, "!!binary wants a UTF-8 text in base64")
    if kind not in _KINDS:
        _refuse(node, f"the tag {node.tag} is not known")
    value = _plain(text)
    if not isinstance(value, _KINDS[kind]) or (kind in {"int", "float"} and isinstance(value, bool)):
        _refuse(node, f"{text[:40]!r} is no !!{kind}")
    return value


def _plain(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if _DOT_FLOAT.fullmatch(text):
        return _finite_or_text(text)
    if text[0] not in "+-0123456789":
        return text
    digits = text.replace("_", "")
    if found := _INTEGER.fullmatch(digits):
        sign, hexadecimal, binary, octal, decimal = found.groups()
        for base, part in ((16, hexadecimal), (2, binary), (8, octal), (10, decimal)):
            if part is not None and len(part) <= _LONGEST_INTEGER_DIGITS:
                return int(sign + part, base)
    return _finite_or_text(digits, text) if _FLOAT.fullmatch(digits) else text


_LONGEST_INTEGER_DIGITS = 64
"""Of a 64-bit integer in base 2; a longer one is a float as soon as it is not small because of zeros."""


def _finite_or_text(digits: str, text: str | None = None) -> float | str:
    value = float(digits)
    return value if math.isfinite(value) else text or digits


def _whole_characters(text: str) -> str:
    """JSON escapes a character beyond the first 65,536 as two halves; YAML's reader leaves them apart."""
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        return text  # half a character, which no field takes


def _refuse(node: yaml.Node, problem: str) -> NoReturn:
    raise ConstructorError(None, None, problem, node.start_mark)
