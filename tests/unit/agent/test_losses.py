"""Prompts that took attempts down go last, alone, and at last not at all."""

from __future__ import annotations

from collections import Counter

import pytest

from batchrun_api.messages import Culprit, Signals
from batchrun_api.outcomes import Reason
from batchrun_runner.losses import in_order, verdict_of_losses
from batchrun_runner.records import PromptRow


def order(starts: list[int], *culprits: int, at_once: int = 4) -> list[tuple[list[int], int]]:
    """Groups of indices, for prompts that were started so often."""
    rows = [(index, PromptRow(index, f"k-{index}", "p")) for index in range(len(starts))]
    known = Counter({f"k-{index}": number for index, number in enumerate(starts)})
    told = Signals(culprits={index: blamed(1) for index in culprits})
    groups = in_order(rows, lambda key: known[key], told, at_once)
    return [([index for index, _ in group], together) for group, together in groups]


def blamed(attempts: int) -> Culprit:
    return Culprit(attempts=attempts, reason=Reason.DISK_FULL, message="its pod was evicted: limit 1Gi")


def test_a_first_attempt_takes_the_prompts_as_they_come() -> None:
    assert order([0, 0, 0]) == [([0, 1, 2], 4)]
    assert order([]) == []


def test_a_blamed_prompt_goes_last_and_alone() -> None:
    assert order([0, 0, 0, 0], 1) == [([0, 2, 3], 4), ([1], 1)]
    assert order([0, 0, 0, 0], 2, 1) == [([0, 3], 4), ([1, 2], 1)]


def test_prompts_that_were_started_before_go_after_the_fresh_and_on_their_last_start_alone() -> None:
    assert order([1, 0, 1, 2, 0]) == [([1, 4], 4), ([0, 2], 4), ([3], 1)]
    assert order([2, 2, 2], 0) == [([1, 2, 0], 1)], "the blamed one is the last of all"


class Batch:
    """Attempts at a batch in which one prompt takes its pod down as soon as it begins, with all that run beside it."""

    def __init__(self, killer: int, size: int, at_once: int, *, named: bool) -> None:
        self.killer, self.at_once, self.named = killer, at_once, named
        self.begun, self.starts = [0] * size, [0] * size
        self.ended: set[int] = set()
        self.given_up: list[int] = []
        self.lost = 0

    def run(self) -> Batch:
        while len(self.ended) < len(self.begun):
            culprits = {self.killer: blamed(self.lost)} if self.named and self.lost else {}
            self.lost += self._is_lost(Signals(culprits=culprits))
        return self

    def _is_lost(self, told: Signals) -> bool:
        left = [index for index in range(len(self.begun)) if index not in self.ended]
        todo = [(index, PromptRow(index, f"k-{index}", "p")) for index in left]
        for group, together in in_order(todo, lambda key: self.starts[int(key[2:])], told, self.at_once):
            for first in range(0, len(group), together):
                wave = {index for index, _ in group[first : first + together]}
                gone = {index for index in wave if verdict_of_losses(index, self.starts[index], told) is not None}
                self.given_up += gone
                for index in wave - gone:
                    self.begun[index] += 1
                    self.starts[index] += not self.named  # an evicted runner unmarks what it had begun
                if self.killer in wave - gone:
                    self.ended |= gone
                    return True
                self.ended |= wave
        return False


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("at_once", [1, 3, 8])
@pytest.mark.parametrize("killer", range(8))
def test_c10_a_prompt_that_takes_its_pod_down_is_the_only_one_to_fail_and_costs_others_one_repeat_if_it_is_named(
    killer: int, at_once: int, named: bool
) -> None:
    batch = Batch(killer, 8, at_once, named=named).run()

    assert batch.given_up == [killer]
    assert batch.begun[killer] == (2 if named else 3)
    others = [number for index, number in enumerate(batch.begun) if index != killer]
    assert max(others) <= (2 if named else 3)
    if at_once == 1:
        assert others == [1] * 7


def test_whoever_cost_enough_attempts_fails_with_the_reason_and_the_words() -> None:
    told = Signals(culprits={1: blamed(2)}, last_loss="OOMKilled, exit code 137")
    assert verdict_of_losses(1, 0, told) == (Reason.DISK_FULL, "its pod was evicted: limit 1Gi")
    assert verdict_of_losses(1, 0, Signals(culprits={1: blamed(1)})) is None
    assert verdict_of_losses(0, 2, told) is None
    reason, message = verdict_of_losses(0, 3, told) or (None, "")
    assert reason is Reason.LOST_ATTEMPTS
    assert message == "started 3 times, and each time the pod was lost; the last time: OOMKilled, exit code 137"
    assert verdict_of_losses(0, 3, Signals()) == (
        Reason.LOST_ATTEMPTS, "started 3 times, and each time the pod was lost"
    )  # fmt: skip
