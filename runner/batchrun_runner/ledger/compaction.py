"""From the parts of a batch to its batch file and ledger. Any number may run at once, and any may be killed anywhere.

The order is batch file, ledger, deletion of the parts that are in it. A crash before the deletion leaves the parts,
which hold everything; a ledger that does not fit its batch file is not believed. Where the store honours conditions,
the loser of a race reads again. Where it does not, the parts are kept for ever, for no write can be trusted to last.
"""

import logging
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from zlib import crc32

from batchrun_runner.ledger import layout
from batchrun_runner.ledger.entry import EntryDamaged, LedgerEntry
from batchrun_runner.ledger.files import Ledger, keep_scanned, new_ledger, read_ledger
from batchrun_runner.ledger.layout import PartName
from batchrun_runner.ledger.parts import BatchParts, decode_part, list_all_parts, list_parts
from batchrun_runner.storage.errors import NotFound, PreconditionFailed, RangeMissing, StorageUnavailable
from batchrun_runner.storage.store import ObjectStore, upload_version

_log = logging.getLogger(__name__)
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class _Row:
    """A row to be written: its entry, and either where it lies in the old batch file or its bytes."""

    entry: LedgerEntry
    body: bytes | None = None


@dataclass(frozen=True, slots=True)
class _Existing:
    """The batch file as it is."""

    etag: str | None
    ledger: Ledger | None

    @property
    def entries(self) -> list[LedgerEntry]:
        return self.ledger.entries() if self.ledger else []

    @property
    def is_scanned(self) -> bool:
        return self.ledger is not None and self.ledger.is_scanned


def compact(store: ObjectStore, batch: int, *, is_over: bool = False) -> list[LedgerEntry]:
    """Bring all parts of a batch into its batch file and ledger; returns the entries. Does nothing where all is done.

    `is_over`: nobody works on this batch any more, so its marks of started prompts go, too. Raises StorageError.
    """
    for _ in range(_ATTEMPTS):
        try:
            return _compact(store, batch, list_parts(store, batch), is_over=is_over)
        except (PreconditionFailed, NotFound, RangeMissing):
            # Another compaction was faster: its result is read and completed.
            continue
    raise StorageUnavailable(f"{store.place}: batch {batch} is written by others all the time")


def compact_left_overs(store: ObjectStore) -> int:
    """Compact every batch that has parts and whose pods are gone; returns how many those were."""
    left = list_all_parts(store)
    for batch in sorted(left):
        compact(store, batch, is_over=True)
    return len(left)


def _compact(store: ObjectStore, batch: int, parts: BatchParts, *, is_over: bool) -> list[LedgerEntry]:
    existing = _existing(store, batch)
    rows = _merged(store, existing, parts.finished)
    entries = existing.entries
    if any(row.body is not None for row in rows):
        entries = _write(store, batch, existing, rows)
    elif existing.is_scanned and existing.ledger:
        keep_scanned(store, existing.ledger)
    _delete_parts(store, parts, {entry.key for entry in entries}, is_over=is_over)
    return entries


def _existing(store: ObjectStore, batch: int) -> _Existing:
    head = store.head(layout.batch_file(batch))
    return _Existing(head.etag, read_ledger(store, batch, head.size_bytes)) if head else _Existing(None, None)


def _merged(store: ObjectStore, existing: _Existing, parts: list[PartName]) -> list[_Row]:
    """One row for each key: done before failed, then the one that is already in the file, then the first by name."""
    loose = [_Row(entry) for entry in existing.entries if not entry.key]
    chosen: dict[str, _Row] = {}
    for entry in existing.entries:
        if entry.key and (entry.key not in chosen or entry.is_done > chosen[entry.key].entry.is_done):
            chosen[entry.key] = _Row(entry)
    for name in parts:
        current = chosen.get(name.key)
        # What was scanned from rows knows less than the part it was made of.
        is_poorer = current is not None and current.body is None and existing.is_scanned
        if current is not None and not is_poorer and (current.entry.is_done or current.entry.writer == name.writer):
            continue
        row = _read_part(store, name)
        if row is not None and (current is None or row.entry.is_done + is_poorer > current.entry.is_done):
            chosen[name.key] = row
    return sorted([*loose, *chosen.values()], key=lambda row: row.entry.prompt_index)


def _read_part(store: ObjectStore, name: PartName) -> _Row | None:
    """None for a damaged part: its prompt has no result, and the object stays for people to look at."""
    try:
        entry, body = decode_part(store.get(name.object_key).body)
    except EntryDamaged as error:
        _log.warning("%s/%s is damaged and not used: %s", store.place, name.object_key, error)
        return None
    return _Row(entry, body)


def _write(store: ObjectStore, batch: int, existing: _Existing, rows: list[_Row]) -> list[LedgerEntry]:
    """Batch file, then ledger."""
    entries = []
    size = file_crc32 = 0
    is_all_new = all(row.body is not None for row in rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "batch.jsonl")
        with path.open("wb") as file:
            for row in rows:
                body = row.body
                if body is None:
                    body = store.get_range(layout.batch_file(batch), row.entry.offset, row.entry.length)
                # A last line of the reference's may lack its end.
                body = body if body.endswith(b"\n") else body + b"\n"
                file.write(body)
                entries.append(replace(row.entry, offset=size, length=len(body)))
                size += len(body)
                file_crc32 = crc32(body, file_crc32)
        upload_version(store, path, layout.batch_file(batch), replaces=existing.etag)
    damaged = existing.ledger.head.damaged if existing.ledger else ()
    # A row of the old file may have been damaged there: only its own checksum knows.
    ledger = new_ledger(batch, entries, size, damaged, file_crc32=file_crc32 if is_all_new else 0)
    store.put(layout.ledger_file(batch), ledger.encode())
    return entries


def _delete_parts(store: ObjectStore, parts: BatchParts, stored: set[str], *, is_over: bool) -> None:
    """Only what was read and is in the file."""
    gone = [name for name in parts.started if is_over or name.key in stored]
    if store.honours_conditions():
        gone += [name for name in parts.finished if name.key in stored]
    store.delete(name.object_key for name in gone)
