"""What the model is told about the tools does not change unnoticed."""

import json
from pathlib import Path

import jsonschema
import pytest

from batchrun_api.toolsets import ALL_TOOLS, TOOLSETS, WORKING_TOOLSETS
from batchrun_runner.tools.registry import IMPLEMENTED_TOOLSETS, TOOLS, schemas, tools_of

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "tools"


@pytest.mark.parametrize("name", TOOLS)
def test_a_schema_is_the_recorded_one(name: str) -> None:
    recorded = json.loads((GOLDEN / f"{name}.json").read_text())

    assert TOOLS[name].schema() == recorded


def test_every_recorded_schema_belongs_to_a_tool() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(TOOLS)


@pytest.mark.parametrize("name", TOOLS)
def test_a_schema_is_valid_and_describes_every_argument(name: str) -> None:
    parameters = TOOLS[name].schema()["function"]["parameters"]

    jsonschema.Draft202012Validator.check_schema(parameters)
    assert all(argument["description"] for argument in parameters["properties"].values())
    assert "title" not in json.dumps(parameters)
    assert "$ref" not in json.dumps(parameters)


def test_the_implemented_toolsets_are_those_that_are_announced() -> None:
    assert frozenset(WORKING_TOOLSETS) == IMPLEMENTED_TOOLSETS
    assert set(TOOLS) <= set(ALL_TOOLS)


def test_schemas_come_in_one_order_whatever_was_drawn_first() -> None:
    names = tools_of(["file", "terminal"])

    assert names == tools_of(["terminal", "file", "file"])
    assert [schema["function"]["name"] for schema in schemas(names)] == list(names)
    assert set(tools_of(["browser"])) == set(TOOLSETS["browser"])
