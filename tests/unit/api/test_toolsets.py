"""The tables of the mission, and what the spec may ask of them."""

from typing import Any

import pytest
from pydantic import ValidationError

from batchrun_api.checks import SpecProblem, distribution_of, spec_problems
from batchrun_api.spec import BatchRunSpec
from batchrun_api.spec.tools import TOOL_KEY_PURPOSES
from batchrun_api.toolsets import ALL_TOOLS, DISTRIBUTIONS, MEANT_FOR, TOOLSETS

TERMINAL = {"distribution": "terminal_only"}


def spec(**fields: object) -> BatchRunSpec:
    return BatchRunSpec.model_validate({"dataset": {"inline": "{}"}} | fields)


def problems_of(**fields: object) -> list[SpecProblem]:
    return spec_problems(spec(**fields), for_cluster=False)


def test_there_are_17_distributions_over_7_toolsets() -> None:
    assert len(DISTRIBUTIONS) == 17
    assert len(TOOLSETS) == 7
    assert DISTRIBUTIONS.keys() == MEANT_FOR.keys()
    assert all(set(distribution) <= set(TOOLSETS) for distribution in DISTRIBUTIONS.values())
    assert len(ALL_TOOLS) == len(set(ALL_TOOLS)) == 21


def test_an_unknown_distribution_is_named_with_the_known_ones() -> None:
    [problem] = problems_of(distribution="everything")

    assert problem.path == ("distribution",)
    assert "'everything'" in problem.message
    assert "terminal_only" in problem.message


def test_an_unknown_toolset_is_named_in_its_place() -> None:
    [problem] = problems_of(distribution={"terminal": 100, "shell": 5})

    assert problem.path == ("distribution", "shell")


def test_a_toolset_that_does_not_work_here_is_refused_with_the_line_that_drops_it() -> None:
    [problem] = problems_of(distribution="terminal_web")

    assert "web" in problem.message
    assert "tools.onUnavailable" in problem.message
    assert problems_of(distribution="terminal_web", tools={"onUnavailable": "Drop"}) == []


def test_dropping_cannot_leave_nothing() -> None:
    [problem] = problems_of(distribution="browser_only", tools={"onUnavailable": "Drop"})

    assert "choose another distribution" in problem.message


@pytest.mark.parametrize("distribution", [{"terminal": 0}, {"terminal": 0, "file": 0}])
def test_probabilities_of_zero_alone_are_refused(distribution: dict[str, int]) -> None:
    [problem] = problems_of(distribution=distribution)

    assert "probability 0" in problem.message


@pytest.mark.parametrize(
    ("fields", "words"), [({}, "output is needed"), ({"dataset": {"uri": "file:///x.jsonl"}}, "one machine only")]
)
def test_a_cluster_needs_more_than_one_machine(fields: dict[str, object], words: str) -> None:
    assert words in " ".join(
        problem.message for problem in spec_problems(spec(**{**TERMINAL, **fields}), for_cluster=True)
    )
    assert spec_problems(spec(**{**TERMINAL, **fields}), for_cluster=False) == []


def test_own_distributions_have_one_order_whatever_a_file_or_the_api_server_makes_of_it() -> None:
    orders = [spec(distribution=own) for own in ({"terminal": 50, "web": 50}, {"web": 50, "terminal": 50})]

    assert [list(distribution_of(order) or {}) for order in orders] == [["web", "terminal"]] * 2


SECRET = {"name": "s", "key": "k"}
MODEL = {"name": "second", "baseURL": "https://other.example.com/v1", "apiKeySecretRef": SECRET}
MODELS_OF_TOOLS: dict[str, Any] = {
    "vision": {"model": MODEL, "allowedRanges": ["10.0.0.0/8"]},
    "imageGen": {"model": MODEL, "size": "64x64"},
    "mixtureOfAgents": {"referenceModels": [MODEL, {"name": "third"}]},
}


def test_of_models_that_tools_ask_their_names_act_on_results_and_neither_addresses_nor_keys() -> None:
    assert spec(tools=MODELS_OF_TOOLS).tools.acting() == {
        "onUnavailable": "Fail",
        "vision": {"model": "second"},
        "imageGen": {"model": "second", "size": "64x64"},
        "mixtureOfAgents": {"referenceModels": ["second", "third"]},
    }
    assert spec().tools.acting() == {"onUnavailable": "Fail"}, "as before there were such fields"


def test_every_key_of_a_tool_has_a_known_purpose() -> None:
    references = {"referenceModels": [MODEL] * 8, "aggregator": MODEL}
    web = {"search": {"provider": "Brave", "apiKeySecretRef": SECRET}}
    refs = spec(tools={**MODELS_OF_TOOLS, "mixtureOfAgents": references, "web": web}).tools.key_refs()

    assert refs.keys() == set(TOOL_KEY_PURPOSES)
    assert spec(tools=MODELS_OF_TOOLS).tools.key_refs().keys() == {"vision", "image_gen", "moa.0"}


@pytest.mark.parametrize(
    ("toolset", "field"), [("vision", "vision"), ("image_gen", "imageGen"), ("moa", "mixtureOfAgents")]
)
def test_a_toolset_that_asks_a_model_works_where_its_field_stands(toolset: str, field: str) -> None:
    [problem] = problems_of(distribution={toolset: 100})

    assert f"{toolset} (needs tools.{field})" in problem.message
    assert problems_of(distribution={toolset: 100}, tools={field: MODELS_OF_TOOLS[field]}) == []


def test_ranges_for_pictures_are_judged_like_those_for_pages() -> None:
    [problem] = problems_of(**TERMINAL, tools={"vision": {"allowedRanges": ["10.0.0.1/8"]}})

    assert problem.path == ("tools", "vision", "allowedRanges")


@pytest.mark.parametrize(
    "tools",
    [
        {"imageGen": {}},
        {"imageGen": {"model": MODEL, "size": "large"}},
        {"mixtureOfAgents": {"referenceModels": []}},
        {"mixtureOfAgents": {"referenceModels": [MODEL] * 9}},
        {"vision": {"model": {"baseURL": "https://other.example.com/v1"}}},
    ],
)
def test_models_of_tools_that_are_incomplete_or_too_many_are_refused(tools: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        spec(tools=tools)
