"""What the batch step writes while it works: marks of starts, one object for each end, the batch file at last."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from batchrun_api.outcomes import DONE_OUTCOMES, Outcome, Reason
from batchrun_api.spec.run import Filters
from batchrun_runner.ledger import layout
from batchrun_runner.ledger.artifacts import ArtifactPlace
from batchrun_runner.ledger.checkpoint import add_batch
from batchrun_runner.ledger.compaction import compact
from batchrun_runner.ledger.entry import MESSAGE_LIMIT_CHARS, EntryDamaged, LedgerEntry
from batchrun_runner.ledger.files import read_ledger
from batchrun_runner.ledger.filters import calls_unknown_tools, filtered, has_reasoning
from batchrun_runner.ledger.layout import PartName
from batchrun_runner.ledger.parts import decode_part, encode_part, list_parts
from batchrun_runner.ledger.stored import refresh_index
from batchrun_runner.records import PromptResult, PromptRow
from batchrun_runner.storage.errors import NotFound, StorageError
from batchrun_runner.storage.store import ObjectStore
from batchrun_runner.text import clean_text

_log = logging.getLogger(__name__)
INDEX_EVERY_BATCHES = 256
"""How often a long run renews the index of ledgers."""
_REASONS = {str(reason): reason for reason in Reason}

End = tuple[Outcome, Reason | None]
"""How a prompt ended, and why where it did not complete."""


@dataclass(frozen=True, slots=True)
class BatchTotals:
    """How the stored prompts of a batch ended."""

    completed: int = 0
    truncated: int = 0
    discarded: int = 0
    failed: int = 0


class BatchRecorder:
    """The store of one batch for one process. All methods block, and may be called from several threads.

    `writer` is unique to this process: an earlier one that is not as dead as it seems can never overwrite us.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        batch: int,
        writer: str,
        run_name: str,
        config_digest: str,
        filters: Filters,
        samples_per_prompt: int = 1,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._batch = batch
        self._writer = layout.checked_writer(writer)
        self._run_name = run_name
        self._config_digest = config_digest
        self._filters = filters
        self._samples_per_prompt = samples_per_prompt
        self._clock = clock
        self._lock = threading.Lock()
        self._starts: Counter[str] = Counter()
        self._ends: dict[str, End] = {}
        self._load()
        self._found_at_start = len(self._ends)

    def _load(self) -> None:
        parts = list_parts(self._store, self._batch)
        self._starts.update(name.key for name in parts.started)
        for name in parts.finished:
            try:
                self._keep(decode_part(self._store.get(name.object_key).body)[0])
            except NotFound:
                # Another process has just compacted it: it is in the batch file, which is read after this.
                continue
            except EntryDamaged as error:
                _log.warning("%s/%s is damaged, its prompt runs again: %s", self._store.place, name.object_key, error)
        head = self._store.head(layout.batch_file(self._batch))
        if head is not None:
            for entry in read_ledger(self._store, self._batch, head.size_bytes).entries():
                self._keep(entry)

    def _keep(self, entry: LedgerEntry) -> None:
        """Note a stored end; done stands before failed, as in the compaction."""
        if self._ends.get(entry.key, (Outcome.FAILED, None))[0] not in DONE_OUTCOMES:
            self._ends[entry.key] = (entry.outcome, _REASONS.get(entry.reason))

    def ends(self) -> dict[str, End]:
        """Stored ends of this batch by key, failed ones included: they run again in a later plan, not in this one."""
        with self._lock:
            return dict(self._ends)

    def starts(self, key: str) -> int:
        """How often this prompt was started in this batch without coming to an end; 0 once it has one."""
        with self._lock:
            return 0 if key in self._ends else self._starts[key]

    def mark_started(self, row: PromptRow) -> None:
        """Write down that this prompt begins, before it does: one that takes its pod down is known by its marks."""
        self._store.put(self._part(row.key, is_start=True).object_key, b"")
        with self._lock:
            self._starts[row.key] += 1

    def unmark_started(self, row: PromptRow) -> None:
        """The prompt was stopped from outside (SIGTERM, suspend) through no fault of its own: this start never was."""
        self._store.delete([self._part(row.key, is_start=True).object_key])
        with self._lock:
            self._starts[row.key] = max(0, self._starts[row.key] - 1)

    def artifacts(self, row: PromptRow) -> ArtifactPlace:
        """Where this attempt's artifacts go: nobody else writes there. Before `record`, which names them."""
        return ArtifactPlace(self._store, layout.artifacts_place(row.key, self._writer))

    def filtered(self, result: PromptResult) -> PromptResult:
        """The result under the run's filters: make the row of this one, and give both to `record`."""
        return filtered(result, self._filters)

    def record(
        self, row: PromptRow, result: PromptResult, line: bytes, *, unfiltered: PromptResult | None = None
    ) -> None:
        """Store how a prompt ended, durably and at once. An interrupted one is only unmarked.

        `result` and `line` are after filters, `unfiltered` is the agent's own result. Raises StorageError: then
        nothing is stored and the prompt is not done.
        """
        if result.outcome is Outcome.INTERRUPTED:
            self.unmark_started(row)
            return
        with self._lock:
            attempts = max(1, self._starts[row.key])
        entry = self._entry(row, result, unfiltered or result, attempts)
        self._store.put(self._part(row.key).object_key, encode_part(entry, line))
        with self._lock:
            self._ends[row.key] = (result.outcome, result.reason)

    def finish(self) -> BatchTotals:
        """Write batch file, ledger and checkpoint of what is stored by now. May be called again."""
        entries = compact(self._store, self._batch)
        outcomes = Counter(entry.outcome for entry in entries)
        add_batch(
            self._store,
            self._run_name,
            self._batch,
            entries,
            skipped=min(self._found_at_start, len(entries)),
            samples_per_prompt=self._samples_per_prompt,
            clock=self._clock,
        )
        if self._batch % INDEX_EVERY_BATCHES == INDEX_EVERY_BATCHES - 1:
            self._refresh_index()
        return BatchTotals(
            completed=outcomes[Outcome.COMPLETED],
            truncated=outcomes[Outcome.TRUNCATED],
            discarded=outcomes[Outcome.DISCARDED],
            failed=outcomes[Outcome.FAILED],
        )

    def _refresh_index(self) -> None:
        try:
            refresh_index(self._store)
        except StorageError as error:
            # Only a resume would have been faster.
            _log.warning("the index of ledgers was not renewed: %s", error)

    def _part(self, key: str, *, is_start: bool = False) -> PartName:
        return PartName(self._batch, key, self._writer, is_start)

    def _entry(self, row: PromptRow, result: PromptResult, unfiltered: PromptResult, attempts: int) -> LedgerEntry:
        before = unfiltered.outcome
        if before is Outcome.DISCARDED:
            # The caller filtered and kept no original: such a sample had its final answer at best.
            before = Outcome.COMPLETED
        is_changed = before is not result.outcome
        return LedgerEntry(
            key=row.key,
            outcome=result.outcome,
            prompt_index=row.index,
            reason=str(result.reason or ""),
            message=clean_text(result.message[:MESSAGE_LIMIT_CHARS]),
            unfiltered_outcome=before if is_changed else None,
            unfiltered_reason=str(unfiltered.reason or "") if is_changed and unfiltered is not result else "",
            has_reasoning=has_reasoning(result),
            has_unknown_tools=calls_unknown_tools(result.conversations, result.tools),
            id=row.id,
            writer=self._writer,
            attempts=attempts,
            api_calls=result.api_calls,
            usage=result.usage,
            tool_stats={tool: stat for tool, stat in result.tool_stats.items() if stat.count},
            invalid_tool_calls=result.invalid_tool_calls,
            reward=result.verification.reward,
            assistant_turns=result.assistant_turns,
            turns_with_reasoning=result.turns_with_reasoning,
            seconds=round(result.seconds, 6),
            model_seconds=round(result.model_seconds, 6),
            tool_seconds=round(result.tool_seconds, 6),
            sandbox_seconds=round(result.sandbox_seconds, 6),
            ended_at=self._clock(),
            config_digest=self._config_digest,
            boot_id=clean_text(result.boot_id),
        )
