"""Which rows go where: one for each prompt, in data set order, under the filters of today."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import orjson

from batchrun_api.outcomes import Outcome, Reason
from batchrun_api.spec import BatchRunSpec
from batchrun_runner.ledger.errors import PlanBroken
from batchrun_runner.ledger.filters import judge
from batchrun_runner.ledger.matching import Matcher
from batchrun_runner.ledger.stored import StoredRow, StoredRun

ORPHAN_INDEX = -1
SUPERSEDED = "Superseded"
"""A failed row whose prompt has a better one."""
DOUBLE = "Double"
"""A second row of the same prompt: two writers, for instance on a node that was lost and came back."""
ORPHANED = "Orphaned"
"""The prompt is no longer in the data set, and merge.orphans is Drop."""
DAMAGED = "Damaged"
"""A line of a batch file that is no row."""


@dataclass(eq=False, slots=True)
class Pick:
    """One stored row that is used. Never changed."""

    row: StoredRow
    index: int
    key: str
    outcome: Outcome
    reason: str
    is_kept: bool
    """True: it goes into the result. False: into the discarded rows."""

    @property
    def is_changed(self) -> bool:
        """Whether more than the row number is different from what is stored."""
        return self.outcome is not self.row.outcome or self.reason != self.row.reason


@dataclass(slots=True)
class Selection:
    """Everything that is stored, sorted into its drawers."""

    picks: list[Pick] = field(default_factory=list)
    """In data set order."""
    orphans: list[Pick] = field(default_factory=list)
    """Rows without a prompt, by batch and place; empty where they are dropped."""
    total: int = 0
    """Prompts of the data set; each sample of a row is one."""
    orphaned: int = 0
    left_out: list[tuple[StoredRow, str]] = field(default_factory=list)
    """Rows that are used nowhere, with the reason."""

    @property
    def not_run(self) -> int:
        """Prompts without any stored end."""
        return self.total - len(self.picks)


def select(spec: BatchRunSpec, stored: StoredRun, order: Iterable[bytes], place: str) -> Selection:
    """Sort all stored rows. `order`: the plan's lines, one for each prompt, from `place`. Raises PlanBroken."""
    matcher = Matcher(stored.rows)
    selection = Selection()
    samples = spec.samples_per_prompt
    for key, text in _prompts(order, place):
        row = matcher.take(key, text)
        if row is not None:
            selection.picks.append(_pick(spec, row, selection.total // samples, key))
        selection.total += 1
    orphans = matcher.left()
    selection.orphaned = len(orphans)
    if spec.merge.orphans == "Keep":
        selection.orphans = [_pick(spec, row, ORPHAN_INDEX, row.key) for row in orphans]
    else:
        selection.left_out.extend((row, ORPHANED) for row in orphans)
    selection.left_out.extend((item.row, DOUBLE if item.is_double else SUPERSEDED) for item in matcher.superseded)
    return selection


def _prompts(order: Iterable[bytes], place: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(order, 1):
        try:
            document = orjson.loads(line)
            yield document["key"], document.get("text", "")
        except (ValueError, TypeError, KeyError) as error:
            raise PlanBroken(f"{place}: line {number} is damaged") from error


def _pick(spec: BatchRunSpec, row: StoredRow, index: int, key: str) -> Pick:
    outcome, reason = judge(row, spec.filters)
    is_corrupted = spec.filters.unknown_tools == "Drop" and row.has_unknown_tools
    is_kept = outcome is not Outcome.DISCARDED and not is_corrupted
    # A row that is stored with its key shares that string, which matters with many of them.
    return Pick(row, index, row.key or key, outcome, reason, is_kept)


def reason_left_out(pick: Pick) -> str:
    """Why a picked row is not in the result."""
    return pick.reason if pick.outcome is Outcome.DISCARDED else Reason.UNKNOWN_TOOLS.value
