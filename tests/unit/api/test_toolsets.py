"""The tables of the mission, and what the spec may ask of them."""

import pytest

from batchrun_api.checks import SpecProblem, distribution_of, spec_problems
from batchrun_api.spec import BatchRunSpec
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
