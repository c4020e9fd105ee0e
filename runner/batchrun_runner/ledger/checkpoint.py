"""`checkpoint.json`: what is done, in the reference's keys. Derived: what it lacks is rebuilt from ledgers and rows."""

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Protocol

import orjson

from batchrun_api.outcomes import Outcome, Reason
from batchrun_api.spec.run import Filters
from batchrun_runner.ledger import layout
from batchrun_runner.ledger.done import DonePrompts
from batchrun_runner.ledger.filters import judge
from batchrun_runner.ledger.stored import StoredRow, load_stored
from batchrun_runner.storage.errors import NotFound, PreconditionFailed
from batchrun_runner.storage.store import ObjectStore, put_version

_log = logging.getLogger(__name__)
_ATTEMPTS = 30

BatchStats = dict[str, int]
"""Of one batch: `processed`, `skipped`, `discarded_no_reasoning` as in the reference, and a count for each outcome."""


class Ended(Protocol):
    """What the checkpoint needs to know of a row."""

    @property
    def key(self) -> str: ...
    @property
    def prompt_index(self) -> int: ...
    @property
    def outcome(self) -> Outcome: ...
    @property
    def reason(self) -> str: ...
    @property
    def is_done(self) -> bool: ...


@dataclass(slots=True)
class Checkpoint:
    """The content of the object."""

    run_name: str
    completed_prompts: set[int] = field(default_factory=set)
    """Row numbers of the prompts that resume leaves alone, in the data set of the latest plan."""
    completed_samples: dict[int, set[int]] = field(default_factory=dict)
    """Of prompts that are done in part: the samples that are."""
    batch_stats: dict[int, BatchStats] = field(default_factory=dict)

    def encode(self, now: float) -> bytes:
        """JSON with sorted numbers. `now`: seconds since the epoch."""
        document = {
            "run_name": self.run_name,
            "completed_prompts": sorted(self.completed_prompts),
            **self._in_part(),
            "batch_stats": {str(batch): self.batch_stats[batch] for batch in sorted(self.batch_stats)},
            "last_updated": timestamp(now),
        }
        return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)

    def _in_part(self) -> dict[str, dict[str, list[int]]]:
        """Nothing in a run with one sample of each prompt."""
        if not self.completed_samples:
            return {}
        samples = {str(index): sorted(self.completed_samples[index]) for index in sorted(self.completed_samples)}
        return {"completed_samples": samples}

    def note_done(self, done: Iterable[Ended], samples_per_prompt: int) -> None:
        """Add the prompts, or the samples of prompts, that are done. What is noted already stays."""
        prompts = DonePrompts(samples_per_prompt, self.completed_prompts, self.completed_samples)
        for entry in done:
            if entry.is_done:
                prompts.add(entry.prompt_index, entry.key)

    @classmethod
    def decode(cls, body: bytes) -> "Checkpoint":
        """Raises ValueError where it is damaged. A number that is listed twice counts once."""
        try:
            document = orjson.loads(body)
            return cls(
                run_name=str(document["run_name"]),
                completed_prompts={int(index) for index in document["completed_prompts"]},
                completed_samples={
                    int(index): {int(sample) for sample in samples}
                    for index, samples in document.get("completed_samples", {}).items()
                },
                batch_stats={
                    int(batch): {str(name): int(count) for name, count in stats.items()}
                    for batch, stats in document["batch_stats"].items()
                },
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not a checkpoint: {error}") from error


def timestamp(now: float) -> str:
    """Seconds since the epoch as ISO 8601 with microseconds and offset, the one form of all our times."""
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds")


def stats_of(entries: Iterable[Ended], *, skipped: int = 0) -> BatchStats:
    """The figures of one batch. `skipped`: prompts that were stored already when its last writer began."""
    ended = list(entries)
    outcomes = Counter(entry.outcome for entry in ended)
    return {
        "processed": len(ended) - skipped,
        "skipped": skipped,
        "discarded_no_reasoning": sum(
            entry.outcome is Outcome.DISCARDED and entry.reason == Reason.NO_REASONING for entry in ended
        ),
        **{str(outcome): outcomes[outcome] for outcome in Outcome if outcome is not Outcome.INTERRUPTED},
    }


def ends_by_batch(rows: Iterable[StoredRow], filters: Filters) -> dict[int, list[Ended]]:
    """Stored rows by batch, each with its end under these filters: the statistics count them so, too."""
    batches: dict[int, list[Ended]] = {}
    for row in rows:
        outcome, reason = judge(row, filters)
        is_same = outcome is row.outcome and reason == row.reason
        batches.setdefault(row.batch, []).append(row if is_same else replace(row, outcome=outcome, reason=reason))
    return batches


def write_checkpoint(
    store: ObjectStore, run_name: str, done: DonePrompts, batches: Mapping[int, list[Ended]], now: float
) -> None:
    """Write it anew from everything that is known. `skipped` figures of batches that are still there are kept."""
    try:
        old = Checkpoint.decode(store.get(layout.CHECKPOINT).body).batch_stats
    except (NotFound, ValueError):
        old = {}
    stats = {}
    for batch, entries in batches.items():
        skipped = old.get(batch, {}).get("skipped", 0)
        stats[batch] = stats_of(entries, skipped=min(skipped, len(entries)))
    checkpoint = Checkpoint(run_name, done.whole, done.in_part, stats)
    store.put(layout.CHECKPOINT, checkpoint.encode(now), durable=False)


def add_batch(
    store: ObjectStore,
    run_name: str,
    batch: int,
    entries: Iterable[Ended],
    *,
    skipped: int = 0,
    samples_per_prompt: int = 1,
    clock: Callable[[], float] = time.time,
    pause: Callable[[float], None] = time.sleep,
) -> bool:
    """Note the end of a batch. False where others wrote all the time: the merge will write it, nothing is lost."""
    ended = list(entries)
    for attempt in range(_ATTEMPTS):
        checkpoint, etag = _read(store, run_name, samples_per_prompt)
        checkpoint.note_done(ended, samples_per_prompt)
        checkpoint.batch_stats[batch] = stats_of(ended, skipped=skipped)
        try:
            put_version(store, layout.CHECKPOINT, checkpoint.encode(clock()), replaces=etag, durable=False)
        except PreconditionFailed:
            pause(random.uniform(0, min(1.0, 0.01 * 2**attempt)))  # noqa: S311 - jitter
            continue
        if store.honours_conditions() or not _lacks_batches(store):
            return True
    _log.warning("%s/%s: others write it all the time; the merge will complete it", store.place, layout.CHECKPOINT)
    return False


def _read(store: ObjectStore, run_name: str, samples_per_prompt: int) -> tuple[Checkpoint, str | None]:
    """The checkpoint as it is, mended where it is damaged or (on a store without conditions) lacks a batch."""
    etag = None
    try:
        stored = store.get(layout.CHECKPOINT)
        etag = stored.etag
        checkpoint = Checkpoint.decode(stored.body)
    except NotFound:
        checkpoint = Checkpoint(run_name)
    except ValueError as error:
        _log.warning("%s/%s is damaged (%s) and made again", store.place, layout.CHECKPOINT, error)
        return _rebuilt(store, run_name, samples_per_prompt), etag
    if not store.honours_conditions() and _lacks_batches(store, checkpoint):
        return _rebuilt(store, run_name, samples_per_prompt), etag
    return checkpoint, etag


def _rebuilt(store: ObjectStore, run_name: str, samples_per_prompt: int) -> Checkpoint:
    checkpoint = Checkpoint(run_name)
    batches: dict[int, list[Ended]] = {}
    for row in load_stored(store, keep_lines=False).rows:
        batches.setdefault(row.batch, []).append(row)
    for batch, rows in batches.items():
        checkpoint.note_done(rows, samples_per_prompt)
        checkpoint.batch_stats[batch] = stats_of(rows)
    return checkpoint


def _lacks_batches(store: ObjectStore, checkpoint: Checkpoint | None = None) -> bool:
    """Whether a stored batch is not in it: another writer's update was lost under ours, or ours under theirs.

    Ledgers are written before the checkpoint and this is asked after it, so the last writer sees all of them.
    """
    if checkpoint is None:
        try:
            checkpoint = Checkpoint.decode(store.get(layout.CHECKPOINT).body)
        except (NotFound, ValueError):
            return True
    return any(
        (number := layout.batch_number(item.key)) is not None and number not in checkpoint.batch_stats
        for item in store.listing(layout.LEDGERS)
    )
