"""The merge: everything that is stored becomes one result, or nothing is replaced."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from batchrun_api.messages import FailureNote, MergeResult, PassAtK, RewardFigures
from batchrun_api.outcomes import DONE_OUTCOMES, Outcome
from batchrun_runner.ledger import layout
from batchrun_runner.ledger.checkpoint import ends_by_batch, write_checkpoint
from batchrun_runner.ledger.collector import many_objects
from batchrun_runner.ledger.compaction import compact_left_overs
from batchrun_runner.ledger.done import DonePrompts
from batchrun_runner.ledger.entry import EntryDamaged, LedgerEntry
from batchrun_runner.ledger.errors import PlanBroken
from batchrun_runner.ledger.files import decode_ledger, new_ledger, scan_ledger
from batchrun_runner.ledger.stored import StoredRun, load_stored, object_lines
from batchrun_runner.merge.dataset_card import dataset_card
from batchrun_runner.merge.errors import LedgerDisagrees, MergeFailed
from batchrun_runner.merge.figures import Figures
from batchrun_runner.merge.left_out import write_left_out
from batchrun_runner.merge.pass_at_k import Estimate, estimates
from batchrun_runner.merge.report.page import write_page
from batchrun_runner.merge.report.row_index import RowIndex
from batchrun_runner.merge.run_statistics import RowCounts, Statistics, run_statistics
from batchrun_runner.merge.selection import ORPHANED, Pick, Selection, select
from batchrun_runner.merge.streams import RowFile, copy_rows
from batchrun_runner.prompt_keys import sample_of
from batchrun_runner.settings import RunSettings
from batchrun_runner.storage.errors import NotFound
from batchrun_runner.storage.store import ObjectStore

_SHOWN_FAILURES = 5
_REPORT_INDEX = "report.index"
"""In the work folder only."""


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge made."""

    result: MergeResult
    statistics: Statistics


def merge(
    settings: RunSettings,
    store: ObjectStore,
    plan_id: str,
    workdir: Path,
    *,
    clock: Callable[[], float] = time.time,
) -> Merged:
    """Merge all batch files of a run into its result, statistics, card and checkpoint.

    `workdir` takes the result while it grows (as large as all rows); on the store's own file system it is then only
    renamed. Raises MergeFailed, PlanBroken and other StorageErrors; then the old result still lies there.
    """
    store.sweep()
    compact_left_overs(store)
    mended: dict[int, int] = {}
    while True:
        try:
            with many_objects():
                merged = _merge(settings, store, plan_id, workdir, clock)
            damaged = {layout.batch_file(batch): lost for batch, lost in mended.items() if lost}
            return replace(merged, result=merged.result.model_copy(update={"damaged": damaged}))
        except LedgerDisagrees as error:
            if error.batch in mended:
                raise
            mended[error.batch] = _mend(store, error.batch)


def _mend(store: ObjectStore, batch: int) -> int:
    """Make the ledger of a batch file that is damaged anew; returns how many of its rows are lost.

    Rows that lie where they lay keep their entries: a row tells less than its entry does.
    """
    scanned = scan_ledger(store, batch)
    try:
        old = {(entry.key, entry.offset, entry.length): entry for entry in _old_entries(store, batch)}
    except (NotFound, EntryDamaged):
        old = {}
    entries = [old.get((entry.key, entry.offset, entry.length), entry) for entry in scanned.entries()]
    mended = new_ledger(batch, entries, scanned.head.size_bytes, scanned.head.damaged)
    store.put(layout.ledger_file(batch), mended.encode())
    return max(0, len(old) - len(entries))


def _old_entries(store: ObjectStore, batch: int) -> list[LedgerEntry]:
    return decode_ledger(store.get(layout.ledger_file(batch)).body).entries()


def _merge(
    settings: RunSettings, store: ObjectStore, plan_id: str, workdir: Path, clock: Callable[[], float]
) -> Merged:
    stored = load_stored(store, keep_lines=True)
    order = layout.plan_order(plan_id)
    try:
        selection = select(settings.spec, stored, object_lines(store, order), f"{store.place}/{order}")
    except NotFound as error:
        raise PlanBroken(f"{store.place}/{order} is gone") from error
    figures = _figures(selection)
    rows = _write_rows(store, stored, selection, workdir)
    passing = estimates(figures.sampled, settings.spec.samples_per_prompt)
    result = _result(selection, figures, passing)
    _check(result, rows, stored, selection)
    statistics = run_statistics(settings, figures, result, rows, passing, clock())
    page = workdir / layout.REPORT
    write_page(page, statistics.document, workdir / _REPORT_INDEX, workdir / layout.TRAJECTORIES)
    _publish(store, workdir)
    store.put(layout.STATISTICS, statistics.encode(), durable=False)
    store.put(layout.CARD, dataset_card(settings.run_name, settings.spec.model.name).encode(), durable=False)
    store.upload(page, layout.REPORT, consume=True, durable=False)
    done = DonePrompts(settings.spec.samples_per_prompt)
    for pick in selection.picks:
        if pick.outcome in DONE_OUTCOMES:
            done.add(pick.index, pick.key)
    write_checkpoint(store, settings.run_name, done, ends_by_batch(stored.rows, settings.spec.filters), clock())
    return Merged(result, statistics)


def _figures(selection: Selection) -> Figures:
    figures = Figures()
    figures.add((pick.row.line, pick.outcome, pick.reason, pick.index) for pick in selection.picks)
    return figures


def _write_rows(store: ObjectStore, stored: StoredRun, selection: Selection, workdir: Path) -> RowCounts:
    with (
        (workdir / layout.TRAJECTORIES).open("wb", buffering=0) as trajectories,
        (workdir / layout.DISCARDED).open("wb", buffering=0) as discards,
        (workdir / layout.LEFT_OUT).open("wb") as left_out,
        (workdir / _REPORT_INDEX).open("wb") as pieces,
    ):
        index = RowIndex(pieces)
        kept, discarded = RowFile(trajectories), RowFile(discards)
        for picks in (selection.picks, selection.orphans):
            copy_rows(store, stored, picks, kept, discarded, index.add)
        index.flush()
        listed = write_left_out(left_out, stored, selection)
    return RowCounts(
        stored=len(stored.rows) + len(stored.damaged),
        trajectories=kept.rows,
        discarded=discarded.rows,
        not_used=listed - discarded.rows,
        trajectories_bytes=kept.size_bytes,
        discarded_bytes=discarded.size_bytes,
    )


def _result(selection: Selection, figures: Figures, passing: Sequence[Estimate]) -> MergeResult:
    failures = [
        FailureNote(
            prompt_index=pick.index,
            sample=sample_of(pick.key),
            id=(entry := pick.row.entry()).id[:200],
            reason=pick.reason,
            message=entry.message[:400],
        )
        for pick in _first_failures(selection)
    ]
    return MergeResult(
        total=selection.total,
        completed=figures.outcomes[Outcome.COMPLETED],
        truncated=figures.outcomes[Outcome.TRUNCATED],
        discarded=figures.outcomes[Outcome.DISCARDED],
        failed=figures.outcomes[Outcome.FAILED],
        not_run=selection.not_run,
        orphaned=selection.orphaned,
        total_tokens=figures.total_tokens,
        tool_calls=figures.tool_calls,
        reasons=dict(sorted(figures.reasons.items())),
        failures=failures,
        reward=_reward(figures, passing),
    )


def _reward(figures: Figures, passing: Sequence[Estimate]) -> RewardFigures | None:
    """With the first and the last k of those that have an estimate: the result is a small word."""
    if not passing:
        return None
    ends = [passing[0], *passing[1:][-1:]]
    return RewardFigures(
        count=figures.rewards,
        mean=figures.reward_sum / figures.rewards,
        pass_at=[PassAtK(k=item.k, value=item.value, prompts=item.prompts) for item in ends],
    )


def _first_failures(selection: Selection) -> list[Pick]:
    return [pick for pick in selection.picks if pick.outcome is Outcome.FAILED][:_SHOWN_FAILURES]


def _check(result: MergeResult, rows: RowCounts, stored: StoredRun, selection: Selection) -> None:
    """Counts that are taken at different places must agree. Raises MergeFailed."""
    ended = result.completed + result.truncated + result.discarded + result.failed
    if result.total != ended + result.not_run:
        raise MergeFailed(f"{result.total} prompts are not {ended} ended ones and {result.not_run} that did not run")
    used = rows.trajectories + rows.discarded + rows.not_used
    if rows.stored != used:
        raise MergeFailed(f"{rows.stored} stored rows went in and {used} came out")
    dropped = sum(reason == ORPHANED for _, reason in selection.left_out)
    written = rows.trajectories + rows.discarded
    if written != ended + result.orphaned - dropped:
        raise MergeFailed(f"{written} rows were written for {ended} prompts and {result.orphaned} orphaned rows")


def _publish(store: ObjectStore, workdir: Path) -> None:
    """The result last: whoever sees a new one finds what belongs to it."""
    for key in (layout.LEFT_OUT, layout.DISCARDED, layout.TRAJECTORIES):
        size = (workdir / key).stat().st_size
        store.upload(workdir / key, key, consume=True, durable=False)
        head = store.head(key)
        if head is None or head.size_bytes != size:
            raise MergeFailed(f"{store.place}/{key} has not the {size} bytes that were written; merge again")
