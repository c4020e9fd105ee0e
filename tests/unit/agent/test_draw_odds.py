"""10,000 draws of each distribution come as its probabilities say: each toolset, and all of them together."""

from collections import Counter
from collections.abc import Collection, Mapping
from itertools import product
from math import prod

import pytest
from tests.unit.agent.chi_square import p_value, p_value_of_statistic

from batchrun_api.toolsets import DISTRIBUTIONS, TOOLSETS, WORKING_TOOLSETS
from batchrun_runner.agent.draw import draw_toolsets

DRAWS = 10_000
SEEDS = ("my_first_run", "coding_v1", "eval_gpt4")
LEAST_P = 0.001
Odds = Mapping[str, int]
Drawn = tuple[str, ...]


def draws(odds: Odds, available: Collection[str], seed: str) -> Counter[Drawn]:
    return Counter(draw_toolsets(odds, available, (seed, f"{number:024x}-0-0")) for number in range(DRAWS))


def possible(odds: Odds, available: Collection[str]) -> dict[str, float]:
    """What is not available is gone before anything is drawn, and so before the fallback."""
    return {name: percent / 100 for name, percent in odds.items() if percent and name in available}


def fallback(chances: Mapping[str, float]) -> str:
    """The most probable one, the first listed on a tie."""
    highest = max(chances.values())
    return next(name for name, chance in chances.items() if chance == highest)


def chance_of_none(chances: Mapping[str, float]) -> float:
    return prod(1 - chance for chance in chances.values())


def chances_of_sets(chances: Mapping[str, float]) -> dict[Drawn, float]:
    """Of each set of toolsets; what would be nothing is the fallback."""
    found: dict[Drawn, float] = Counter()  # type: ignore[assignment]
    for chosen in product((True, False), repeat=len(chances)):
        drawn = tuple(name for name, taken in zip(chances, chosen, strict=True) if taken)
        chance = prod(chance if taken else 1 - chance for chance, taken in zip(chances.values(), chosen, strict=True))
        found[drawn or (fallback(chances),)] += chance
    return found


def judge(odds: Odds, available: Collection[str], seed: str) -> None:
    chances = possible(odds, available)
    drawn = draws(odds, available, seed)
    for name, chance in chances.items():
        expected = chance + chance_of_none(chances) * (name == fallback(chances))
        count = sum(times for toolsets, times in drawn.items() if name in toolsets)
        alone = p_value({True: count, False: DRAWS - count}, {True: expected, False: 1 - expected})
        assert alone > LEAST_P, (name, count, expected)
    together = p_value(drawn, chances_of_sets(chances))
    assert together > LEAST_P, drawn


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_toolsets_come_with_their_probability_and_the_fallback_with_that_of_none_besides(name: str, seed: str) -> None:
    judge(DISTRIBUTIONS[name], TOOLSETS, seed)


@pytest.mark.parametrize(
    ("odds", "available"),
    [
        *(
            pytest.param(odds, WORKING_TOOLSETS, id=name)
            for name, odds in DISTRIBUTIONS.items()
            if any(odds.get(toolset, 100) != 100 for toolset in WORKING_TOOLSETS)
            and any(toolset in odds for toolset in WORKING_TOOLSETS)
            and not set(odds) <= set(WORKING_TOOLSETS)
        ),
        pytest.param(DISTRIBUTIONS["reasoning"], ("web", "terminal"), id="without-the-most-probable"),
        pytest.param(DISTRIBUTIONS["balanced"], ("moa", "file"), id="without-the-first-of-a-tie"),
        pytest.param(DISTRIBUTIONS["browser_tasks"], ("vision", "terminal"), id="only-the-rare-ones"),
    ],
)
def test_what_is_not_available_is_dropped_before_the_fallback(odds: Odds, available: Collection[str]) -> None:
    assert set(possible(odds, available)) < set(odds)
    judge(odds, available, SEEDS[0])


@pytest.mark.parametrize("odds", [{"web": 20, "file": 40, "terminal": 40}, {"web": 1}, {"web": 1, "moa": 99}])
def test_own_distributions_are_drawn_by_the_same_rule(odds: Odds) -> None:
    judge(odds, TOOLSETS, SEEDS[0])


# ---- the test itself ----


@pytest.mark.parametrize(
    ("statistic", "degrees", "expected"),
    [
        (3.841, 1, 0.05), (10.828, 1, 0.001), (5.991, 2, 0.05), (13.816, 2, 0.001), (16.266, 3, 0.001),
        (24.322, 7, 0.001), (124.342, 100, 0.05), (181.993, 127, 0.001), (0.0, 4, 1.0),
    ],
)  # fmt: skip
def test_p_values_are_those_of_the_tables(statistic: float, degrees: int, expected: float) -> None:
    assert p_value_of_statistic(statistic, degrees) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("wrong", "of"),
    [
        pytest.param({"web": 30, "vision": 10, "terminal": 80, "file": 80, "moa": 63}, "development", id="odds"),
        pytest.param({"web": 33, "terminal": 20, "moa": 90}, "reasoning", id="odds-of-a-rare-one"),
        pytest.param(dict(reversed(DISTRIBUTIONS["balanced"].items())), "balanced", id="the-other-end-of-a-tie"),
    ],
)
def test_small_faults_would_be_seen(wrong: Odds, of: str) -> None:
    drawn = draws(wrong, TOOLSETS, SEEDS[0])
    in_order = Counter({tuple(sorted(names, key=list(TOOLSETS).index)): times for names, times in drawn.items()})

    assert p_value(in_order, chances_of_sets(possible(DISTRIBUTIONS[of], TOOLSETS))) < LEAST_P
