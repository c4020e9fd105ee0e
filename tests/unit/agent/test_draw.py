"""Draws: seeded, independent, never empty where something is available."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchrun_api.toolsets import DISTRIBUTIONS, TOOLSETS
from batchrun_runner.agent.draw import draw_toolsets

toolsets = st.sampled_from(list(TOOLSETS))
distributions = st.dictionaries(toolsets, st.integers(0, 100), min_size=1)


@settings(deadline=None)
@given(distributions, st.sets(toolsets), st.text())
def test_a_draw_repeats_and_holds_only_what_is_possible(
    distribution: dict[str, int], available: set[str], key: str
) -> None:
    drawn = draw_toolsets(distribution, available, ("run", key))
    assert drawn == draw_toolsets(distribution, available, ("run", key))
    possible = [name for name, percent in distribution.items() if percent and name in available]
    assert set(drawn) <= set(possible)
    assert bool(drawn) == bool(possible)
    assert {name for name in possible if distribution[name] == 100} <= set(drawn)


def test_each_toolset_comes_as_often_as_its_probability_says() -> None:
    prompts = 4000
    for name, percent in DISTRIBUTIONS["development"].items():
        draws = (draw_toolsets(DISTRIBUTIONS["development"], TOOLSETS, ("run", str(n))) for n in range(prompts))
        assert sum(name in drawn for drawn in draws) / prompts * 100 == pytest.approx(percent, abs=3)


def test_another_run_draws_differently() -> None:
    draws = [[draw_toolsets(DISTRIBUTIONS["balanced"], TOOLSETS, (run, str(n))) for n in range(50)] for run in "ab"]
    assert draws[0] != draws[1]


def test_if_none_was_drawn_the_most_probable_is_taken_the_first_on_a_tie() -> None:
    rare = {"web": 1, "file": 2, "terminal": 2}
    drawn = [draw_toolsets(rare, rare, ("run", str(n))) for n in range(200)]
    assert max(drawn, key=drawn.count) == ("file",)


def test_what_is_not_available_is_dropped_before_the_fallback() -> None:
    assert draw_toolsets({"web": 100, "file": 1}, {"file"}, ("run", "1")) == ("file",)
    assert draw_toolsets({"web": 100}, {"file"}, ("run", "1")) == ()
