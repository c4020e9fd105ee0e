"""The tables of the mission, and what the spec may ask of them."""

import pytest

from batchrun_api.checks import spec_problems
from batchrun_api.spec import BatchRunSpec
from batchrun_api.toolsets import ALL_TOOLS, DISTRIBUTIONS, MEANT_FOR, TOOLSETS


def spec(**fields: object) -> BatchRunSpec:
    return BatchRunSpec.model_validate({"dataset": {"inline": "{}"}, **fields})


def test_there_are_17_distributions_over_7_toolsets() -> None:
    assert len(DISTRIBUTIONS) == 17
    assert len(TOOLSETS) == 7
    assert DISTRIBUTIONS.keys() == MEANT_FOR.keys()
    assert all(set(distribution) <= set(TOOLSETS) for distribution in DISTRIBUTIONS.values())
    assert len(ALL_TOOLS) == len(set(ALL_TOOLS)) == 21


def test_an_unknown_distribution_is_named_with_the_known_ones() -> None:
    [problem] = spec_problems(spec(distribution="everything"))

    assert problem.path == ("distribution",)
    assert "'everything'" in problem.message
    assert "terminal_only" in problem.message


def test_an_unknown_toolset_is_named_in_its_place() -> None:
    [problem] = spec_problems(spec(distribution={"terminal": 100, "shell": 5}))

    assert problem.path == ("distribution", "shell")


def test_a_toolset_that_does_not_work_here_is_refused_with_the_line_that_drops_it() -> None:
    [problem] = spec_problems(spec(distribution="terminal_web"))

    assert "web" in problem.message
    assert "tools.onUnavailable" in problem.message
    assert spec_problems(spec(distribution="terminal_web", tools={"onUnavailable": "Drop"})) == []


def test_dropping_cannot_leave_nothing() -> None:
    [problem] = spec_problems(spec(distribution="browser_only", tools={"onUnavailable": "Drop"}))

    assert "choose another distribution" in problem.message


@pytest.mark.parametrize("distribution", [{"terminal": 0}, {"terminal": 0, "file": 0}])
def test_probabilities_of_zero_alone_are_refused(distribution: dict[str, int]) -> None:
    [problem] = spec_problems(spec(distribution=distribution))

    assert "probability 0" in problem.message
