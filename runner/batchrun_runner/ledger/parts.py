"""One object for each finished prompt: its entry and its row, written together or not at all."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson

from batchrun_runner.ledger import layout
from batchrun_runner.ledger.entry import EntryDamaged, LedgerEntry
from batchrun_runner.ledger.layout import PartName
from batchrun_runner.storage.store import ObjectStore


@dataclass(slots=True)
class BatchParts:
    """The parts of one batch, by their names."""

    finished: list[PartName] = field(default_factory=list)
    started: list[PartName] = field(default_factory=list)

    def add(self, name: PartName) -> None:
        """Put a name where it belongs."""
        (self.started if name.is_start else self.finished).append(name)


def list_parts(store: ObjectStore, batch: int) -> BatchParts:
    """What lies there of one batch."""
    found = BatchParts()
    for name in _names(store, layout.parts(batch)):
        found.add(name)
    return found


def list_all_parts(store: ObjectStore) -> dict[int, BatchParts]:
    """What lies there, by batch."""
    found: dict[int, BatchParts] = {}
    for name in _names(store, layout.PARTS):
        found.setdefault(name.batch, BatchParts()).add(name)
    return found


def _names(store: ObjectStore, prefix: str) -> Iterator[PartName]:
    for item in store.listing(prefix):
        name = layout.part_name(item.key)
        if name is not None:
            yield name


def encode_part(entry: LedgerEntry, row: bytes) -> bytes:
    """The object of a finished prompt. `row` is one line of JSON; its line end may be missing."""
    row = row if row.endswith(b"\n") else row + b"\n"
    if row.count(b"\n") != 1 or not row.startswith(b'{"prompt_index":'):
        raise ValueError("a row is one line that starts with its prompt_index")
    return entry.of_row(row, offset=0).encode() + row


def decode_part(body: bytes) -> tuple[LedgerEntry, bytes]:
    """Entry and row of a part. Raises EntryDamaged."""
    first, _, row = body.partition(b"\n")
    entry = LedgerEntry.decode(first)
    if len(row) != entry.length or not row.endswith(b"\n"):
        raise EntryDamaged(f"the row of {entry.key} is cut off")
    try:
        orjson.loads(row)
    except ValueError as error:
        raise EntryDamaged(f"the row of {entry.key} is not JSON: {error}") from error
    return entry, row
