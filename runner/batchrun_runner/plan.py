"""The plan step: read the data set, find what is done, cut batches of the rest.

Refusals are `ledger.ownership.PlanRefused`, `dataset.errors.DatasetError` and `storage.errors.StorageError`: each
carries the condition's `reason`, and a message that names place and fix. Nothing is run before all of it holds.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import orjson

from batchrun_api.plan import Plan, plan_in_words
from batchrun_api.spec import BatchRunSpec
from batchrun_api.text import counted
from batchrun_runner.agent.draw import Draws
from batchrun_runner.dataset.own_settings import RowBounds
from batchrun_runner.dataset.rows import InvalidRow
from batchrun_runner.dataset.sources import Source
from batchrun_runner.ledger import layout
from batchrun_runner.ledger.checkpoint import ends_by_batch, timestamp, write_checkpoint
from batchrun_runner.ledger.collector import many_objects
from batchrun_runner.ledger.compaction import compact_left_overs
from batchrun_runner.ledger.cutting import Cutter
from batchrun_runner.ledger.errors import PlanBroken
from batchrun_runner.ledger.identity import Configuration, configuration
from batchrun_runner.ledger.ownership import ConfigChanged, OutputNotEmpty, claim
from batchrun_runner.ledger.parts import list_all_parts
from batchrun_runner.ledger.stored import StoredRun, load_stored
from batchrun_runner.records import PromptRow
from batchrun_runner.settings import RunSettings
from batchrun_runner.storage.errors import NotFound, RangeMissing
from batchrun_runner.storage.store import ObjectStore

_NOT_USED = "what is damaged is not used, and a prompt without another row runs again"
_SHOWN_FILES = 5


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """A plan and what people want to know of it."""

    plan: Plan
    config_digest: str
    rejected: tuple[InvalidRow, ...] = ()
    """The first few rows that cannot be used; all of them lie in `rejected.jsonl`."""

    @property
    def summary(self) -> str:
        """One line for people."""
        return plan_in_words(self.plan.counts, len(self.plan.batches))


def make_plan(
    settings: RunSettings,
    store: ObjectStore,
    source: Source,
    plan_id: str,
    *,
    clock: Callable[[], float] = time.time,
) -> PlanOutcome:
    """Plan a run, first or resumed. `store` is the run's own place. Raises the refusals of this module's docstring."""
    claim(store, settings.owner)
    _refuse_if_never(settings, store, plan_id)
    store.sweep()
    taken = _highest_number(store)
    compact_left_overs(store)
    with many_objects():
        stored = load_stored(store, keep_lines=False)
    config = configuration(settings)
    _refuse_if_changed(settings, store, stored, config)
    with tempfile.TemporaryDirectory() as folder:
        highest = max(taken, -1, *stored.sizes_bytes, *stored.missing)
        draws = Draws(settings)
        with Cutter(Path(folder), settings.spec, stored.rows, highest + 1, draws.have_browser) as cutter:
            _read(settings.spec, source, cutter, f"{store.place}/{layout.REJECTED}")
        plan = cutter.plan(plan_id, _damage(store.place, stored))
        _write(store, plan, config, cutter, clock())
    if stored.rows:
        batches = ends_by_batch(stored.rows, settings.spec.filters)
        write_checkpoint(store, settings.run_name, cutter.done, batches, clock())
    return PlanOutcome(plan, config.digest, tuple(cutter.rejected))


def _damage(place: str, stored: StoredRun) -> list[str]:
    """What is stored at `place` and cannot be used, a sentence for each batch file; the first few."""
    rows = Counter(batch for batch, _ in stored.damaged)
    said = [
        *(f"{layout.batch_file(batch)} holds {counted(rows[batch], 'damaged row')}" for batch in rows),
        *(f"{layout.batch_file(batch)} is gone, and its ledger is not" for batch in stored.missing),
    ]
    more = len(said) - _SHOWN_FILES
    shown = [f"{place}/{text}; {_NOT_USED}" for text in said[:_SHOWN_FILES]]
    return shown if more <= 0 else [*shown, f"and {counted(more, 'more batch file')} like these"]


def read_batch_rows(store: ObjectStore, plan_id: str, *, number: int, offset: int, length: int) -> list[PromptRow]:
    """The rows of one batch, by its byte range. Raises PlanBroken where they are not there any more."""
    key = layout.plan_rows(plan_id)
    place = f"{store.place}/{key}"
    try:
        lines = store.get_range(key, offset, length).split(b"\n")[:-1]
    except NotFound as error:
        raise PlanBroken(f"{place} is gone") from error
    except RangeMissing as error:
        raise PlanBroken(f"{place} is too short for batch {number}") from error
    try:
        documents = [orjson.loads(line) for line in lines]
        numbers = {document.pop("batch") for document in documents}
        rows = [PromptRow.from_document(document) for document in documents]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise PlanBroken(f"{place}: the rows of batch {number} are damaged") from error
    if numbers != {number}:
        raise PlanBroken(f"{place}: another plan has replaced the rows of batch {number}")
    return rows


def _refuse_if_never(settings: RunSettings, store: ObjectStore, plan_id: str) -> None:
    if settings.spec.resume_policy != "Never" or store.head(layout.plan_summary(plan_id)) is not None:
        return
    for prefix in (layout.BATCHES, layout.LEDGERS, layout.PARTS, layout.TRAJECTORIES, layout.CHECKPOINT):
        for item in store.listing(prefix):
            raise OutputNotEmpty(
                f"{store.place} holds results ({item.key}) and resumePolicy is Never; "
                "set it to Continue to go on from them, or give the run another runName"
            )


def _refuse_if_changed(settings: RunSettings, store: ObjectStore, stored: StoredRun, config: Configuration) -> None:
    digests = Counter(row.config_digest for row in stored.rows if row.is_done and row.config_digest)
    del digests[config.digest]
    if not digests or settings.spec.resume_policy == "Force":
        return
    digest, rows = digests.most_common(1)[0]
    try:
        old = Configuration.decode(store.get(layout.configuration_file(digest)).body)
    except NotFound:
        old = None
    raise ConfigChanged(
        f"{store.place} holds {counted(rows, 'result')} of another configuration; changed: "
        f"{', '.join(config.changes_from(old))}. Set resumePolicy: Force to keep them and go on, "
        "undo the change, or give the run another runName"
    )


def _highest_number(store: ObjectStore) -> int:
    """The highest batch number that parts or earlier plans took; -1 for none."""
    numbers = [-1, *list_all_parts(store)]
    for item in store.listing(layout.PLANS):
        if item.key.endswith("/summary.json"):
            try:
                numbers.append(int(orjson.loads(store.get(item.key).body)["last_batch"]))
            except (NotFound, ValueError, TypeError, KeyError):
                continue
    return max(numbers)


def _read(spec: BatchRunSpec, source: Source, cutter: Cutter, rejected: str) -> None:
    """Hand over the rows, `maxSamples` of them at most: counted before anything is known of what is done."""
    rows = source.rows(RowBounds.of(spec))
    while spec.max_samples is None or cutter.taken < spec.max_samples:
        row = next(rows, None)
        if row is None:
            break
        if isinstance(row, InvalidRow):
            cutter.reject(row)
        else:
            cutter.add(row)
    cutter.finish(source.place, rejected)


def _write(store: ObjectStore, plan: Plan, config: Configuration, cutter: Cutter, now: float) -> None:
    """Rows before the summary: a plan that was cut short has none."""
    cutter.write_rejected(store)
    store.put(layout.configuration_file(config.digest), config.encode())
    store.upload(cutter.rows_path, layout.plan_rows(plan.plan_id), consume=True)
    store.upload(cutter.order_path, layout.plan_order(plan.plan_id), consume=True)
    summary = {
        "planned_at": timestamp(now),
        "config_digest": config.digest,
        "first_batch": plan.batches[0].number if plan.batches else -1,
        "last_batch": plan.batches[-1].number if plan.batches else -1,
        "counts": plan.counts.model_dump(),
    }
    store.put(layout.plan_summary(plan.plan_id), orjson.dumps(summary, option=orjson.OPT_APPEND_NEWLINE))
