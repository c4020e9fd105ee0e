"""Cutting batches: the rows of a data set in their order, what is done of them, and where the rest goes."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Self

import orjson

from batchrun_api.outcomes import Outcome
from batchrun_api.own_container import AS_THE_RUN_SAYS, OwnContainer
from batchrun_api.plan import Plan, PlanCounts
from batchrun_api.spec import BatchRunSpec
from batchrun_api.text import counted
from batchrun_runner.dataset.errors import DatasetInvalid
from batchrun_runner.dataset.keys import text_digest
from batchrun_runner.dataset.rows import InvalidRow
from batchrun_runner.ledger import layout
from batchrun_runner.ledger.batching import BatchWriter, Indices, batching_of
from batchrun_runner.ledger.done import DonePrompts
from batchrun_runner.ledger.filters import judge
from batchrun_runner.ledger.matching import Matcher
from batchrun_runner.ledger.stored import StoredRow
from batchrun_runner.prompt_keys import with_sample
from batchrun_runner.records import PromptRow
from batchrun_runner.storage.store import ObjectStore

_SHOWN_INVALID_ROWS = 5
_OWN_FIELDS = ("env", "files", "setup", "timeout_seconds", "max_turns", "verify", "collect")
_TEXT_FIELDS = tuple(item.name for item in fields(PromptRow) if item.name not in {*_OWN_FIELDS, "container"})


class Cutter:
    """Takes the rows of the data set in their order; cuts batches of those that are not done. Spools to files."""

    def __init__(
        self,
        folder: Path,
        spec: BatchRunSpec,
        stored: Iterable[StoredRow],
        first_number: int,
        needs_browser: Callable[[str], bool],
    ) -> None:
        """`needs_browser`: whether the prompt with a key has drawn one."""
        self.rows_path = folder / "rows.jsonl"
        self.order_path = folder / "order.jsonl"
        self.rejected_path = folder / "rejected.jsonl"
        self.taken = 0
        """Rows of the data set."""
        self.total = 0
        """Prompts: each sample of a row is one."""
        self.done = DonePrompts(spec.samples_per_prompt)
        self.rejected: list[InvalidRow] = []
        self._refusal: DatasetInvalid | None = None
        self._skipped: list[str] = []
        self._invalid = 0
        self._spec = spec
        self._needs_browser = needs_browser
        self._matcher = Matcher(stored)
        self._outcomes: Counter[Outcome] = Counter()
        self._images: dict[str, int] = {}
        self._containers: dict[OwnContainer, int] = {}
        self._folder = folder
        self._first_number = first_number
        self._files = ExitStack()

    def __enter__(self) -> Self:
        self._writer = BatchWriter(self._files.enter_context(self.rows_path.open("wb")), self._first_number)
        waiting = self._files.enter_context((self._folder / "waiting.jsonl").open("w+b"))
        self._batching = batching_of(self._spec, self._writer, waiting)
        self._order = self._files.enter_context(self.order_path.open("wb"))
        self._rejects = self._files.enter_context(self.rejected_path.open("wb"))
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def reject(self, row: InvalidRow) -> None:
        """Note a row that cannot be used."""
        self._invalid += 1
        if len(self.rejected) < _SHOWN_INVALID_ROWS:
            self.rejected.append(row)
        self._rejects.write(orjson.dumps(asdict(row), option=orjson.OPT_APPEND_NEWLINE))

    def add(self, row: PromptRow) -> None:
        """Take a row of the data set: each of its samples is done, or goes into a batch."""
        self.taken += 1
        # Rows of the reference have no key. Only the first sample is theirs, or another row would go without its own.
        self._add(row, text_digest(row.prompt) if self._matcher.needs_texts else "")
        for sample in range(1, self._spec.samples_per_prompt):
            self._add(replace(row, key=with_sample(row.key, sample)), "")

    def _add(self, row: PromptRow, text: str) -> None:
        self.total += 1
        order = {"key": row.key, "text": text} if text else {"key": row.key}
        self._order.write(orjson.dumps(order, option=orjson.OPT_APPEND_NEWLINE))
        stored = self._matcher.take(row.key, text)
        if stored is not None and stored.is_done:
            self.done.add(row.index, row.key)
            self._outcomes[judge(stored, self._spec.filters)[0]] += 1
        else:
            self._add_to_batch(row)

    def _add_to_batch(self, row: PromptRow) -> None:
        document = {name: value for name in _TEXT_FIELDS if (value := getattr(row, name)) not in {"", "{}"}}
        document |= {name: value for name in _OWN_FIELDS if (value := getattr(row, name))}
        container = -1
        if row.container is not AS_THE_RUN_SAYS:
            document["container"] = row.container.model_dump(exclude_defaults=True)
            container = self._containers.setdefault(row.container, len(self._containers))
        image = self._images.setdefault(row.image, len(self._images)) if row.image else -1
        line = orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)
        # The slice is a copy of its own size: orjson's object keeps the 8 KiB that it was written in.
        self._batching.add(line[1:], row.image, Indices(image, container, self._needs_browser(row.key)))

    def finish(self, place: str, rejected: str) -> None:
        """The data set at `place` has ended: decide whether it can be used. `rejected`: where its bad rows will lie."""
        self._batching.finish()
        if self._invalid:
            listed = "; ".join(map(str, self.rejected))
            self._skipped = [f"skipped: {listed}; every skipped row is listed in {rejected}"]
        if self._invalid and self._spec.dataset.on_invalid_row == "Fail":
            more = self._invalid - len(self.rejected)
            listed = "; ".join(map(str, self.rejected)) + (f"; and {more:,} more" if more else "")
            self._refusal = DatasetInvalid(
                f"{place}: {self._invalid:,} of {counted(self._invalid + self.taken, 'row')} cannot be used: {listed}. "
                f"All of them are listed in {rejected}; set dataset.onInvalidRow: Skip to run the others"
            )
        elif not self.total:
            unusable = f"; {counted(self._invalid, 'row')} cannot be used, see {rejected}" if self._invalid else ""
            self._refusal = DatasetInvalid(f"{place} holds no prompt{unusable}; give at least one row with a `prompt`")

    def write_rejected(self, store: ObjectStore) -> None:
        """Lay down the list of unusable rows, or remove an old one. Raises DatasetInvalid where they forbid to run."""
        if self._invalid:
            store.upload(self.rejected_path, layout.REJECTED, consume=True, durable=False)
        elif store.head(layout.REJECTED) is not None:
            store.delete([layout.REJECTED])
        if self._refusal is not None:
            raise self._refusal

    def plan(self, plan_id: str, damage: Sequence[str] = ()) -> Plan:
        """The plan of what was taken. `damage`: what is to be said of what is stored."""
        done = self._outcomes.total()
        counts = PlanCounts(
            total=self.total,
            samples_per_prompt=self._spec.samples_per_prompt,
            done=done,
            completed=self._outcomes[Outcome.COMPLETED],
            truncated=self._outcomes[Outcome.TRUNCATED],
            discarded=self._outcomes[Outcome.DISCARDED],
            to_run=self.total - done,
            invalid=self._invalid,
            orphaned=len(self._matcher.left()),
        )
        notes = [*damage, *self._skipped]
        return Plan(
            plan_id=plan_id,
            counts=counts,
            images=list(self._images),
            containers=list(self._containers),
            batches=self._writer.batches,
            notes=notes,
        )
