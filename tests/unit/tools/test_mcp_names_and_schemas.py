"""Names and schemas of MCP tools as model servers take them."""

from typing import Any

import pytest

from batchrun_runner.mcp_servers.naming import MOST_CHARS, offered_name
from batchrun_runner.mcp_servers.schemas import cleaned


def test_names_are_clean_short_and_unique() -> None:
    taken: list[str] = []
    for tool in ("add", "a.b", "a/b", "x" * 200, "x" * 201, "é"):
        taken.append(offered_name("ours", tool, taken))

    assert taken[:2] == ["ours__add", "ours__a_b"]
    assert len(set(taken)) == len(taken)
    assert all(len(name) <= MOST_CHARS and name.isascii() for name in taken)


def test_references_are_inlined_and_recursion_ends() -> None:
    schema: dict[str, Any] = {
        "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}},
        "type": "object",
        "properties": {"node": {"$ref": "#/$defs/Node"}},
        "required": ["node", "gone"],
    }
    found = cleaned(schema)

    assert found["required"] == ["node"]
    assert "$ref" not in str(found)
    assert found["properties"]["node"]["properties"]["next"]["type"] == "object"


@pytest.mark.parametrize("schema", [{}, {"type": "string"}, {"properties": 5}, {"$ref": "#"}, {"allOf": [5]}])
def test_whatever_a_schema_is_parameters_are_an_object(schema: dict[str, Any]) -> None:
    assert cleaned(schema) == {"type": "object", "properties": {}}


def test_parts_are_joined_and_unsupported_keywords_left_out() -> None:
    part = {"properties": {"a": {"type": "string", "format": "x", "pattern": "("}}, "required": ["a"]}

    assert cleaned({"allOf": [part, {"properties": {"b": {"oneOf": [{"type": "null"}]}}}]}) == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"anyOf": [{"type": "null"}]}},
        "required": ["a"],
    }
