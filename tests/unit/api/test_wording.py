"""What pydantic refuses is said in plain words, whatever is wrong and wherever."""

import copy
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from batchrun_api import wording
from batchrun_api.crd import custom_resource_definition
from batchrun_api.spec import BatchRun, BatchRunSpec, distribution
from batchrun_api.wording import plain_words

SPEC = custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
JARGON = re.compile(r"(?i)input|\bvalid\b|dictionar|instance|should|tuple|pydantic|\bobject\b|pattern|\bdict\b|model_")
GOOD = {
    "apiVersion": "batchrun.dev/v1alpha1",
    "kind": "BatchRun",
    "metadata": {"name": "a"},
    "spec": {"dataset": {"uri": "s3://a/b"}},
}
WRONG: list[Any] = [
    None, "", "x", "\0 ?", "\ud800", "x" * 200_000, "http://host:0", True, -1, 3, 10**30, 0.5, -0.5, float("nan"),
    float("inf"), [], ["x"], ["x"] * 100, [[]], [{}], [1], {}, {"": 1}, {"?": "x" * 400}, {1: "x"}, {"a b": "x y"},
    {f"k{number}": "x" for number in range(100)}, {"a": []}, {"terminal": 101}, {"terminal": "x"},
]  # fmt: skip


def places(node: dict[str, Any], place: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every field of the spec, and the first member of every list."""
    yield place
    for name, child in node.get("properties", {}).items():
        yield from places(child, (*place, name))
    if "items" in node:
        yield from places(node["items"], (*place, 0))


def with_value(place: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    document = copy.deepcopy(GOOD)
    if not place:
        return document | {"spec": value}
    node: Any = document["spec"]
    for step, after in pairwise(place):
        if isinstance(step, int):
            node.append({})
            node = node[0]
        else:
            node = node.setdefault(step, [] if isinstance(after, int) else {})
    if isinstance(place[-1], int):
        node.append(value)
    else:
        node[place[-1]] = value
    return document


def errors_of(document: Any) -> list[Any]:
    try:
        BatchRun.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        return error.errors(include_url=False, include_input=False)
    return []


def test_no_message_of_any_mistake_has_jargon() -> None:
    seen = set()
    for place in places(SPEC):
        for value in WRONG:
            for detail in errors_of(with_value(place, value)):
                words = plain_words(detail)
                seen.add(detail["type"])
                assert not JARGON.search(words), (detail["loc"], detail["type"], words)
                assert "\n" not in words
    documents: list[Any] = [
        None,
        [],
        {},
        {"kind": 3},
        GOOD | {"metadata": {"name": "A"}},
        GOOD | {"metadata": {"labels": 1}},
    ]
    for document in documents:
        for detail in errors_of(document):
            assert not JARGON.search(plain_words(detail)), detail

    assert seen <= wording._BY_TYPE.keys() | {"string_pattern_mismatch"}, "a type without words of its own"
    assert len(seen) > 15, "the walk has met most types"


def patterns(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("pattern"), str):
            yield node["pattern"]
        yield from node.get("patternProperties", {})
        for child in node.values():
            yield from patterns(child)
    if isinstance(node, list):
        for child in node:
            yield from patterns(child)


def test_every_pattern_has_words() -> None:
    found = set(patterns(TypeAdapter(BatchRun).json_schema())) | set(patterns(TypeAdapter(BatchRunSpec).json_schema()))

    assert found
    # The models take any name of a distribution: `checks` lists those that there are.
    assert found - {distribution.DISTRIBUTION_NAME} <= wording._PATTERNS.keys()


@pytest.mark.parametrize(
    ("place", "value", "says"),
    [
        (("model",), "gpt", "must be a mapping (field: value)"),
        (("distribution",), {1: 5}, "as a key must be a text"),
        (("podTemplate", "labels"), {"a": "b c"}, "must be a label's value"),
        (("dataset", "onInvalidRow"), "skip", "must be Fail or Skip"),
        (("model", "openRouter", "providers", "sort"), "x", "must be price, throughput or latency"),
        (("runName",), "", "must not be empty"),
        (("batchSize",), 101, "must be at most 100"),
        (("agent", "prefillMessages"), [], "must not be empty"),
        (("suspend",), "yes", "must be true or false"),
        (("model", "sampling", "topP"), 0, "must be above 0"),
    ],
)
def test_a_mistake_is_said_in_words_of_the_file(place: tuple[str, ...], value: Any, says: str) -> None:
    assert any(plain_words(detail).startswith(says) for detail in errors_of(with_value(place, value)))


@pytest.mark.parametrize(
    "url",
    ["http://localhost:8000/v1", "https://a.b", "http://[::1]:8000/v1", "http://[fe80::1%25eth0]/", "https://host:65535",
     "http://user:pass@host:1/v1", "https://host?x=1", "http://host:08000/v1", "http://höst/v1", "http://10.0.0.1:9000"],
)  # fmt: skip
def test_a_web_address_is_taken(url: str) -> None:
    assert errors_of(with_value(("output", "s3"), {"bucket": "results", "endpointURL": url})) == []
    assert errors_of(with_value(("dataset", "uri"), url)) == []


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://joe:password@host/v1", "must not hold a user name or password"),
        ("http://joe@host", "must not hold a user name or password"),
        ("http://host/v1?api-version=1", "must not hold a query or fragment"),
        ("http://host/v1#part", "must not hold a query or fragment"),
    ],
)
def test_a_base_url_that_would_be_shown_or_broken_is_refused_with_the_fix(url: str, says: str) -> None:
    [words] = [plain_words(detail) for detail in errors_of(with_value(("model", "baseURL"), url))]
    assert f"baseURL {says}" in words
    assert "password@" not in words
    assert errors_of(with_value(("model", "baseURL"), "http://host:1/@team/v1")) == []


@pytest.mark.parametrize(
    "url",
    ["http://host:99999/v1", "http://host:65536", "http://host:0/v1", "https://host:80a/", "http://host:-1/", "http:///v1",
     "https://host:123456?x", "http://[::1/v1", "http://::1/v1", "http://a b/", "http://user@/v1", "http://host:/v1"],
)  # fmt: skip
def test_an_address_that_no_library_can_use_is_refused(url: str) -> None:
    for place in (("model", "baseURL"), ("output", "s3", "endpointURL"), ("dataset", "uri")):
        assert any(plain_words(detail).startswith("must be a") for detail in errors_of(with_value(place, url))), place
