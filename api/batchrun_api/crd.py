"""The CustomResourceDefinition, generated from the models: pydantic's JSON schema made structural.

Structural (apiextensions/v1) means: each node has one type, no `$ref`, no union with null, no key patterns. What a
structural schema cannot say about the keys of a map becomes a CEL rule.
"""

from typing import Any

from pydantic import BaseModel

from batchrun_api.spec.base import ApiModel
from batchrun_api.spec.run import API_GROUP, API_VERSION, KIND, PLURAL, BatchRunSpec
from batchrun_api.status import BatchRunStatus

Schema = dict[str, Any]

_DROPPED = ("title", "$defs", "propertyNames", "patternProperties", "additionalProperties", "default", "const")
_FREE_FORM = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

PRINTER_COLUMNS = [
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    {
        "name": "Done",
        "type": "string",
        "jsonPath": ".status.progress",
        "description": "Prompts with an outcome, of all",
    },
    {"name": "Failed", "type": "integer", "jsonPath": ".status.prompts.failed", "description": "Failed prompts"},
    {
        "name": "Batches",
        "type": "string",
        "jsonPath": ".status.batchProgress",
        "description": "Finished batches, of all",
    },
    {"name": "Model", "type": "string", "jsonPath": ".spec.model.name"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


def custom_resource_definition() -> Schema:
    """The whole CRD as a document."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{API_GROUP}"},
        "spec": {
            "group": API_GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": ["br"],
            },
            "versions": [
                {
                    "name": API_VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": PRINTER_COLUMNS,
                    "schema": {"openAPIV3Schema": _root()},
                }
            ],
        },
    }


def _root() -> Schema:
    return {
        "type": "object",
        "description": "A data set of prompts, run by an agent over a model; trajectories go to a store.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": structural(BatchRunSpec),
            "status": structural(BatchRunStatus),
        },
    }


def structural(model: type[BaseModel]) -> Schema:
    """The structural schema of a model."""
    schema = model.model_json_schema(by_alias=True)
    node = _convert(schema, schema.get("$defs", {}))
    _add_defaults(node, model)
    return node


def _convert(node: Schema, definitions: Schema) -> Schema:
    if _is_structural(node):
        return {key: value for key, value in node.items() if key != "title"}
    if "$ref" in node:
        target = _convert(definitions[node["$ref"].rsplit("/", 1)[1]], definitions)
        return {**target, **{key: value for key, value in node.items() if key == "description"}}
    if options := [option for option in node.get("anyOf", []) if option.get("type") != "null"]:
        return _convert_union(node, options, definitions)
    result = {key: value for key, value in node.items() if key not in _DROPPED}
    if "const" in node:
        result |= {"type": "string", "enum": [node["const"]]}
    for limit, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if exclusive in result:
            result |= {limit: result[exclusive], exclusive: True}
    if node.get("type") == "array":
        result["items"] = _convert(node["items"], definitions)
    if node.get("type") == "object":
        result |= _convert_object(node, definitions)
    return result


def _is_structural(node: Schema) -> bool:
    """Written by hand for values of any kind: `anyOf` in it are checks, not types."""
    return "x-kubernetes-preserve-unknown-fields" in node and "type" not in node


def _convert_union(node: Schema, options: list[Schema], definitions: Schema) -> Schema:
    outer = {key: value for key, value in node.items() if key not in _DROPPED}
    if node.get("x-kubernetes-int-or-string"):
        return outer
    [option] = options
    del outer["anyOf"]
    return _convert(option, definitions) | outer


def _convert_object(node: Schema, definitions: Schema) -> Schema:
    if "properties" in node:
        return {"properties": {name: _convert(value, definitions) for name, value in node["properties"].items()}}
    if patterns := node.get("patternProperties"):
        [(pattern, values)] = patterns.items()
        return {"additionalProperties": _convert(values, definitions), **_key_rule(node, pattern)}
    values = node.get("additionalProperties")
    if not isinstance(values, dict):
        return dict(_FREE_FORM)
    return {"additionalProperties": _convert(values, definitions), **_key_rule(node, None)}


def _key_rule(node: Schema, pattern: str | None) -> Schema:
    limits = node.get("propertyNames", {})
    checks = []
    if "maxLength" in limits:
        checks.append(f"size(key) >= {limits.get('minLength', 0)} && size(key) <= {limits['maxLength']}")
    if pattern := pattern or limits.get("pattern"):
        checks.append(f"key.matches('{pattern}')")
    if not checks:
        return {}
    rule = {"rule": f"self.all(key, {' && '.join(checks)})", "message": "a key is too long or has other characters"}
    return {"x-kubernetes-validations": [rule]}


def _add_defaults(node: Schema, model: type[BaseModel]) -> None:
    """Defaults as the API server fills them in: `{}` for an object whose own fields have theirs."""
    for name, field in model.model_fields.items():
        child = node["properties"][field.alias or name]
        if field.is_required():
            if isinstance(field.annotation, type) and issubclass(field.annotation, ApiModel):
                _add_defaults(child, field.annotation)
            continue
        value = field.get_default(call_default_factory=True)
        if isinstance(value, ApiModel):
            child["default"] = {} if value == type(value).model_construct() else value.to_wire()
            _add_defaults(child, type(value))
        elif value not in (None, "", [], {}):
            child["default"] = value
