"""Prompts that took earlier attempts of their batch down: when they run, and when no more (ADR 0016)."""

from collections.abc import Callable, Iterator, Sequence

from batchrun_api.messages import MAX_LOST_TO_ONE_SANDBOX, Signals
from batchrun_api.outcomes import Reason
from batchrun_runner.records import PromptRow

MAX_STARTS = 3
"""A prompt that was started this often and never ended is the culprit of lost attempts (docs/decisions/0002)."""

Indexed = tuple[int, PromptRow]
"""A row with its place in the batch."""


def in_order(
    todo: Sequence[Indexed], starts: Callable[[str], int], told: Signals, at_once: int
) -> Iterator[tuple[Sequence[Indexed], int]]:
    """Groups of prompts, one after the other, each with how many of it may run at the same time.

    Whoever may take the pod down goes last, so that it costs nobody a repeat; one that was blamed, or begins for the
    last time, goes alone, so that nobody falls with it.
    """

    def danger(item: Indexed) -> tuple[bool, int]:
        index, row = item
        number = starts(row.key)
        return index in told.culprits or number >= MAX_STARTS - 1, number

    ranked = [(danger(item), item) for item in todo]
    fresh = [item for (alone, number), item in ranked if not alone and number == 0]
    again = [item for (alone, number), item in ranked if not alone and number > 0]
    yield from ((group, at_once) for group in (fresh, again) if group)
    alone = [(number, item) for (is_alone, number), item in ranked if is_alone]
    if alone:
        yield [item for _, item in sorted(alone, key=lambda pair: (pair[1][0] in told.culprits, pair[0]))], 1


def verdict_of_losses(index: int, starts: int, told: Signals) -> tuple[Reason, str] | None:
    """Reason and message where a prompt has cost enough attempts; None: it may run."""
    culprit = told.culprits.get(index)
    if culprit is not None and culprit.attempts >= MAX_LOST_TO_ONE_SANDBOX:
        return culprit.reason, culprit.message
    if starts < MAX_STARTS:
        return None
    why = f"; the last time: {told.last_loss}" if told.last_loss else ""
    return Reason.LOST_ATTEMPTS, f"started {MAX_STARTS} times, and each time the pod was lost{why}"
