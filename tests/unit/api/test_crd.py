"""The CRD is structural, bounded and described, whatever fields come to the models."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from batchrun_api.crd import custom_resource_definition
from batchrun_api.spec.model import NOT_IN_EXTRA_BODY
from batchrun_api.toolsets import DISTRIBUTIONS, TOOLSETS

CRD = custom_resource_definition()
ROOT = CRD["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in node:
            yield from nodes(node[key], f"{path}[]")


NODES = [(path, node) for part in ("spec", "status") for path, node in nodes(ROOT["properties"][part], part)]


@pytest.mark.parametrize(("path", "node"), NODES, ids=[path for path, _ in NODES])
def test_every_node_is_structural_bounded_and_described(path: str, node: dict[str, Any]) -> None:
    assert "type" in node or "x-kubernetes-int-or-string" in node or "x-kubernetes-preserve-unknown-fields" in node
    assert not {"$ref", "$defs", "oneOf", "patternProperties", "propertyNames", "title"} & set(node)
    if node.get("type") == "string":
        assert "maxLength" in node or "enum" in node
    if node.get("type") == "array":
        assert "maxItems" in node
    if "additionalProperties" in node:
        assert "maxProperties" in node
    if not path.endswith("[]"):
        assert node.get("description")


def test_the_printer_columns_are_those_of_the_mission() -> None:
    columns = CRD["spec"]["versions"][0]["additionalPrinterColumns"]

    assert [column["name"].upper() for column in columns] == ["PHASE", "DONE", "FAILED", "BATCHES", "MODEL", "AGE"]


def test_defaults_stand_in_the_schema() -> None:
    spec = ROOT["properties"]["spec"]["properties"]

    assert spec["batchSize"]["default"] == 10
    assert spec["model"]["default"] == {}
    assert spec["model"]["properties"]["name"]["default"] == "anthropic/claude-sonnet-4.6"
    assert spec["sandbox"]["properties"]["resources"]["default"]["limits"] == {"cpu": "1", "memory": "1Gi"}


def test_the_api_server_refuses_every_field_of_a_request_that_is_ours_and_says_what_to_do() -> None:
    body = ROOT["properties"]["spec"]["properties"]["model"]["properties"]["extraBody"]
    rules = {rule["rule"]: rule["message"] for rule in body["x-kubernetes-validations"]}

    assert body["x-kubernetes-preserve-unknown-fields"] is True
    # The bare key n is a boolean for the YAML reader of Kubernetes.
    assert body["properties"].keys() == NOT_IN_EXTRA_BODY.keys() - {"n"}
    for field in body["properties"]:
        assert rules[f"!has(self.{field})"] == f"{field!r} is not for extraBody: {NOT_IN_EXTRA_BODY[field]}"


def test_the_api_server_knows_the_distributions_and_the_bounds_of_own_probabilities() -> None:
    node = ROOT["properties"]["spec"]["properties"]["distribution"]

    assert all(re.match(node["pattern"], name) for name in DISTRIBUTIONS)
    assert not re.match(node["pattern"], "everything")
    assert node["minProperties"] == 1
    required = {name for option in node["anyOf"] for name in option["required"]}
    assert node["properties"].keys() == {*TOOLSETS, "configMapKeyRef"} == required
    bounds = {(node["properties"][name]["minimum"], node["properties"][name]["maximum"]) for name in TOOLSETS}
    assert bounds == {(0, 100)}


def test_the_api_server_knows_the_reference_to_a_distribution_as_the_model_has_it() -> None:
    node = ROOT["properties"]["spec"]["properties"]["distribution"]["properties"]["configMapKeyRef"]
    same = ROOT["properties"]["spec"]["properties"]["agent"]["properties"]["prefillMessagesFrom"]["properties"]

    assert {**node, "description": ""} == {**same["configMapKeyRef"], "description": ""}
