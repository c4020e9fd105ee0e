"""Pearson's test: how likely counts as odd as these are, if the probabilities are what they are said to be."""

from collections.abc import Hashable, Mapping
from math import erfc, exp, lgamma, log, sqrt
from typing import TypeVar

Cell = TypeVar("Cell", bound=Hashable)

LEAST_EXPECTED = 5
"""Cells in which fewer are expected are taken together: the test's approximation does not hold for them."""


def p_value_of_statistic(statistic: float, degrees: int) -> float:
    """Probability of a larger value: the upper regularized gamma function of degrees/2, in its closed forms."""
    half = statistic / 2
    if half == 0:
        return 1.0
    if degrees % 2 == 0:
        return sum(exp(i * log(half) - half - lgamma(i + 1)) for i in range(degrees // 2))
    terms = (exp((i - 0.5) * log(half) - half - lgamma(i + 0.5)) for i in range(1, (degrees - 1) // 2 + 1))
    return erfc(sqrt(half)) + sum(terms)


def p_value(counts: Mapping[Cell, int], probabilities: Mapping[Cell, float]) -> float:
    """Of the counts of all cells. 1 where only one cell is possible; 0 where an impossible one was met."""
    total = sum(counts.values())
    if any(count and not probabilities.get(cell) for cell, count in counts.items()):
        return 0.0
    expected = {cell: total * probability for cell, probability in probabilities.items() if probability}
    large = {cell for cell, number in expected.items() if number >= LEAST_EXPECTED}
    pairs = [(counts.get(cell, 0), expected[cell]) for cell in large]
    if small := expected.keys() - large:
        pairs.append((sum(counts.get(cell, 0) for cell in small), sum(expected[cell] for cell in small)))
    if len(pairs) == 1:
        return 1.0
    statistic = sum((count - number) ** 2 / number for count, number in pairs)
    return p_value_of_statistic(statistic, len(pairs) - 1)
