"""pass@k: the chance that one of k samples of a prompt is right, by the unbiased estimator (docs/decisions/0013).

Chen et al. 2021, "Evaluating Large Language Models Trained on Code", arXiv:2107.03374, section 2.1.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

PASSING_REWARD = 1.0
"""A sample has passed with this reward, or a larger one."""

Sampled = Counter[tuple[int, int]]
"""How many prompts have so many samples with a reward, so many of which passed."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """One k."""

    k: int
    value: float
    """Mean over the prompts, from 0 to 1."""
    prompts: int
    """Prompts with at least k rewards; never 0."""


class RewardTally:
    """Counts rewards prompt by prompt: all those of one prompt must follow each other. Holds one prompt at a time."""

    def __init__(self, sampled: Sampled) -> None:
        """`sampled` is what is counted into."""
        self._sampled = sampled
        self._index: int | None = None
        self._rewards = 0
        self._passed = 0

    def add(self, index: int, reward: float) -> None:
        """The reward of one sample. `index`: the row number of its prompt."""
        if index != self._index:
            self.close()
            self._index = index
        self._rewards += 1
        self._passed += reward >= PASSING_REWARD

    def close(self) -> None:
        """The prompt that was told last has no more samples."""
        if self._rewards:
            self._sampled[self._rewards, self._passed] += 1
        self._index, self._rewards, self._passed = None, 0, 0


def chances(rewards: int, passed: int) -> Iterator[float]:
    """For k = 1 to `rewards`: 1 - C(rewards - passed, k) / C(rewards, k).

    The quotient is a product of k factors, so no large number arises and nothing is lost at any size.
    """
    failed = rewards - passed
    none_right = 1.0
    for drawn in range(rewards):
        none_right *= max(0, failed - drawn) / (rewards - drawn)
        yield 1.0 - none_right


def estimates(sampled: Mapping[tuple[int, int], int], samples_per_prompt: int) -> list[Estimate]:
    """pass@k for k = 1 to `samples_per_prompt`, as far as there are prompts with k rewards; empty without any."""
    sums = [0.0] * samples_per_prompt
    prompts = [0] * samples_per_prompt
    for (rewards, passed), count in sorted(sampled.items()):
        for index, chance in zip(range(samples_per_prompt), chances(rewards, passed), strict=False):
            sums[index] += chance * count
            prompts[index] += count
    return [
        Estimate(k, round(total / count, 6), count)
        for k, (total, count) in enumerate(zip(sums, prompts, strict=True), 1)
        if count
    ]


def passed_samples(sampled: Mapping[tuple[int, int], int]) -> int:
    """All samples that passed."""
    return sum(passed * prompts for (_, passed), prompts in sampled.items())
