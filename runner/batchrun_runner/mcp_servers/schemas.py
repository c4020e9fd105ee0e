"""Schemas of a server's tools as strict model servers take them: an object at the top, references inlined."""

from collections.abc import Mapping
from typing import Any

MOST_DEPTH = 12
_KEPT = frozenset(
    [
        "type",
        "description",
        "enum",
        "const",
        "default",
        "items",
        "properties",
        "required",
        "additionalProperties",
        "anyOf",
        "minimum",
        "maximum",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
    ]
)
"""What every server understands; the MCP server itself checks the rest."""
_COMBINED = ("oneOf", "anyOf")


def cleaned(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a tool from its input schema, whatever that is."""
    plain = _clean(schema, schema, 0)
    properties = plain.get("properties")
    required = [name for name in plain.get("required", ()) if name in (properties or {})]
    made: dict[str, Any] = {"type": "object", "properties": properties or {}}
    if required:
        made["required"] = required
    for name in ("description", "additionalProperties"):
        if name in plain:
            made[name] = plain[name]
    return made


def _clean(node: Any, root: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """{} takes anything: what nests too deep, refers to itself or is no schema."""
    if not isinstance(node, Mapping) or depth > MOST_DEPTH:
        return {}
    node = _joined(node, root, depth)
    kept: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties" and isinstance(value, Mapping):
            kept[key] = {str(name): _clean(item, root, depth + 1) for name, item in value.items()}
        elif key == "items":
            kept[key] = _clean(value, root, depth + 1)
        elif key in _COMBINED and isinstance(value, list):
            kept["anyOf"] = [_clean(item, root, depth + 1) for item in value]
        elif key == "additionalProperties":
            kept[key] = value if isinstance(value, bool) else _clean(value, root, depth + 1)
        elif key == "required" and not isinstance(value, list):
            continue
        elif key in _KEPT and key not in {*_COMBINED, "properties"}:
            kept[key] = value
    return kept


def _joined(node: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """The node with what it refers to and all parts of its allOf."""
    joined: dict[str, Any] = {}
    reference = node.get("$ref")
    parts = node.get("allOf")
    found = [_found(reference, root)] if isinstance(reference, str) else []
    for part in [*found, *(parts if isinstance(parts, list) else [])]:
        if isinstance(part, Mapping) and depth < MOST_DEPTH:
            _add(joined, _joined(part, root, depth + 1))
    _add(joined, {key: value for key, value in node.items() if key not in {"$ref", "allOf"}})
    return joined


def _add(joined: dict[str, Any], more: Mapping[str, Any]) -> None:
    for key, value in more.items():
        old = joined.get(key)
        if key == "properties" and isinstance(old, Mapping) and isinstance(value, Mapping):
            joined[key] = {**old, **value}
        elif key == "required" and isinstance(old, list) and isinstance(value, list):
            joined[key] = list(dict.fromkeys([*old, *map(str, value)]))
        else:
            joined[key] = value


def _found(reference: str, root: Mapping[str, Any]) -> Any:
    """What lies at a reference into the same schema; None for any other."""
    if not reference.startswith("#"):
        return None
    node: Any = root
    for step in filter(None, reference[1:].split("/")):
        node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, Mapping) else None
    return node
