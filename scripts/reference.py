"""docs/reference.md, made of the models: every field, condition, reason and exit code."""

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator
from enum import Enum
from typing import Any

from batchrun_api import conditions, outcomes
from batchrun_api.crd import custom_resource_definition
from batchrun_api.exit_codes import ExitCode
from batchrun_operator.reconcile.identity import LIVE_FIELDS

Schema = dict[str, Any]

_OWN_TABLE = ("dataset", "model", "agent", "sandbox", "output", "podTemplate")
"""Fields of the spec that are large enough for a table of their own."""

_HEAD = """\
# Reference

Made from the models by `make generate`; `kubectl explain batchrun.spec --recursive` tells the same. What the fields do
together stands in the [README](../README.md), what rows and `statistics.json` hold in
[trajectories.md](trajectories.md).

**Changing a field:** *fixed*: refused. *live*: acts on the run that is going on. *new plan*: what runs is ended, what
is finished stays stored, the rest is planned again. A field that is left out, or null, has its default.
"""

_EXIT = """\
`batchrun local` ends with 0, 1 or 2, and 130 after an interrupt (Ctrl-C, SIGTERM): what is finished is stored then.
`validate`, `export` and `translate` end with 0 or 2.
"""


def reference() -> str:
    """The whole document."""
    schema = custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    spec, status = schema["spec"], schema["status"]
    parts = [_HEAD, "## spec\n", *_spec_table(spec)]
    for name in _OWN_TABLE:
        node = spec["properties"][name]
        parts += [f"### spec.{name}\n", f"{node['description']} Changing it: *{_change(name, spec)}*.\n"]
        parts += _table(("field", "type", "default", "bounds", "meaning"), _rows(node, ""))
        parts += _rules(node, f"spec.{name}")
    parts += ["## status\n", "Written by the operator, read by people and programs; never read back as a decision.\n"]
    parts += _table(("field", "type", "meaning"), ((path, kind, text) for path, kind, _, _, text in _rows(status, "")))
    parts += ["## Conditions\n", *_table(("type", "meaning"), _members(conditions.ConditionType))]
    parts += ["Reasons, in all conditions:\n", *_table(("reason", "meaning"), _members(conditions.Reason))]
    parts += ["`status.phase`, for people only:\n", *_table(("phase", "meaning"), _members(conditions.Phase))]
    parts += ["## Outcomes of a prompt\n", *_table(("outcome", "meaning"), _members(outcomes.Outcome))]
    parts += ["Reasons of prompts that did not complete:\n"]
    parts += _table(("reason", "meaning"), _members(outcomes.Reason))
    parts += ["## Exit codes\n", _EXIT, "The steps in pods (`batchrun plan`, `batch`, `merge`):\n"]
    parts += _table(("code", "name", "meaning"), ((str(code.value), *row) for code, row in _coded(ExitCode)))
    return "\n".join(parts).rstrip("\n") + "\n"


def _spec_table(spec: Schema) -> list[str]:
    rows = []
    for path, kind, default, bounds, text in _rows(spec, "", closed=_OWN_TABLE):
        name = path.split(".")[0]
        linked = f"{text} See [spec.{name}](#spec{name.lower()})." if path in _OWN_TABLE else text
        rows.append((path, kind, default, bounds, _change(name, spec), linked))
    return [*_table(("field", "type", "default", "bounds", "changing it", "meaning"), rows), *_rules(spec, "spec")]


def _change(name: str, spec: Schema) -> str:
    """The rules over `oldSelf` say what is fixed, the plan's identity what is live."""
    fixed = any(
        "oldSelf" in rule["rule"] and rule["rule"].startswith(f"has(self.{name})")
        for rule in spec.get("x-kubernetes-validations", ())
    )
    return "fixed" if fixed else "live" if name in LIVE_FIELDS else "new plan"


_OPEN = "x-kubernetes-preserve-unknown-fields"
"""An object that takes any field: those that are named are checks."""
Row = tuple[str, str, str, str, str]


def _rows(node: Schema, prefix: str, closed: tuple[str, ...] = ()) -> Iterator[Row]:
    """(path, type, default, bounds, meaning) of each field below a node, its objects opened unless they are closed."""
    required = set(node.get("required", ()))
    for name, field in node["properties"].items():
        path = f"{prefix}{name}"
        default = "required" if name in required else _default(field)
        yield path, _type(field), default, _bounds(field), field.get("description", "")
        inner = field.get("items", field)
        if "properties" in inner and path not in closed and _OPEN not in inner:
            yield from _rows(inner, f"{path}[]." if inner is not field else f"{path}.")


def _type(field: Schema) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "quantity"
    if "enum" in field:
        return " \\| ".join(f"`{word}`" for word in field["enum"])
    kind = field.get("type")
    if kind is None:
        return "string or object"
    if kind == "array":
        return f"list of {_type(field['items'])}"
    if isinstance(field.get("additionalProperties"), dict):
        return f"map to {_type(field['additionalProperties'])}"
    return str(kind)


def _default(field: Schema) -> str:
    if "default" not in field or field["default"] == {}:
        return ""
    value = field["default"]
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _bounds(field: Schema) -> str:
    """What the API server checks besides the type."""
    kinds = (("minimum", "maximum", ""), ("minLength", "maxLength", " characters"), ("minItems", "maxItems", " items"))
    bounds = [
        _range(field, low, high, unit) for low, high, unit in (*kinds, ("minProperties", "maxProperties", " keys"))
    ]
    if "pattern" in field and not field.get("x-kubernetes-int-or-string"):
        bounds.append("`" + field["pattern"].replace("|", "\\|") + "`")
    return ", ".join(filter(None, bounds))


def _range(field: Schema, low: str, high: str, unit: str) -> str:
    least, most = field.get(low), field.get(high)
    above = "above " if field.get("exclusiveMinimum") and low == "minimum" else ""
    if least is None and most is None:
        return ""
    if most is None:
        return f"{above or 'from '}{least:,}{unit}" if least else ""
    if least is None or (least == 0 and unit):
        return f"up to {most:,}{unit}"
    return f"{above}{least:,} to {most:,}{unit}"


def _rules(node: Schema, path: str) -> list[str]:
    """What holds over several fields at once, here and in the objects below."""
    found = [f"* {message}" for message in dict.fromkeys(_messages(node))]
    return [f"Also checked in {path}:\n", *found, ""] if found else []


def _messages(node: Schema) -> Iterator[str]:
    yield from (rule["message"] for rule in node.get("x-kubernetes-validations", ()))
    for name, field in node.get("properties", {}).items():
        if name not in _OWN_TABLE:
            yield from _messages(field)


def _table(head: tuple[str, ...], rows: Any) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        first, *others = row
        lines.append(f"| `{first}` | " + " | ".join(" ".join(cell.split()) for cell in others) + " |")
    return [*lines, ""]


def _coded(kind: type[ExitCode]) -> Iterator[tuple[ExitCode, tuple[str, str]]]:
    for code, (_, text) in zip(kind, _members(kind), strict=True):
        yield code, (code.name, text)


def _members(kind: type[Enum]) -> Iterator[tuple[str, str]]:
    """(value, description) of each member. Raises KeyError for one without a text below it."""
    texts = _texts(kind)
    for member in kind:
        yield str(member.value), texts[member.name]


def _texts(kind: type[Enum]) -> dict[str, str]:
    """By member: the string that stands right below it."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)  # noqa: S101 - the source of a class
    texts = {}
    for member, below in zip(definition.body, definition.body[1:], strict=False):
        if (
            isinstance(member, ast.Assign)
            and isinstance(name := member.targets[0], ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
        ):
            texts[name.id] = inspect.cleandoc(str(below.value.value))
    return texts
