"""Everything that is stored of a run, as one list: what planning and merging start from."""

import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import IO

import orjson

from batchrun_api.outcomes import DONE_OUTCOMES, Outcome
from batchrun_runner.ledger import layout
from batchrun_runner.ledger.entry import UNMARKED_SCHEMA, EntryDamaged, LedgerEntry
from batchrun_runner.ledger.files import Ledger, LedgerHead, keep_scanned, read_ledger, scan_ledger
from batchrun_runner.ledger.scan import DamagedLine
from batchrun_runner.storage.errors import NotFound
from batchrun_runner.storage.store import ObjectStore, blocks

_WINDOW = 256


_OUTCOMES = {str(outcome): outcome for outcome in Outcome}


# Not frozen, compared by identity: 100,000 of them are made, and that is twice as fast.
@dataclass(eq=False, slots=True)
class StoredRow:
    """One row of a batch file, in as little memory as planning and merging 100,000 of them allow. Never changed."""

    batch: int
    key: str
    text: str
    prompt_index: int
    outcome: Outcome
    reason: str
    unfiltered_outcome: Outcome | None
    unfiltered_reason: str
    has_reasoning: bool
    has_unknown_tools: bool
    config_digest: str
    schema: int
    offset: int
    length: int
    crc32: int
    line: bytes
    """The whole entry; empty where the reader did not ask for it."""

    @property
    def is_done(self) -> bool:
        """Whether resume leaves this prompt alone."""
        return self.outcome in DONE_OUTCOMES

    def entry(self) -> LedgerEntry:
        """The whole entry."""
        return LedgerEntry.decode(self.line)


def _stored_row(batch: int, line: bytes, *, keep_line: bool) -> StoredRow:
    try:
        document = orjson.loads(line)
        unfiltered = document.get("unfiltered_outcome")
        return StoredRow(
            batch,
            document.get("key", ""),
            document.get("text", ""),
            document.get("prompt_index", -1),
            _OUTCOMES[document["outcome"]],
            sys.intern(document.get("reason", "")),
            _OUTCOMES[unfiltered] if unfiltered else None,
            sys.intern(document.get("unfiltered_reason", "")),
            document.get("has_reasoning", False),
            document.get("has_unknown_tools", False),
            sys.intern(document.get("config_digest", "")),
            document.get("schema", UNMARKED_SCHEMA),
            document.get("offset", 0),
            document.get("length", 0),
            document.get("crc32", 0),
            line if keep_line else b"",
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise EntryDamaged(f"not a ledger entry: {line[:80]!r}") from error


@dataclass(slots=True)
class StoredRun:
    """All rows of all batch files."""

    rows: list[StoredRow] = field(default_factory=list)
    """By batch number, then by place."""
    sizes_bytes: dict[int, int] = field(default_factory=dict)
    """Size of each batch file."""
    crc32s: dict[int, int] = field(default_factory=dict)
    """Checksum of each whole batch file, where it is known."""
    damaged: list[tuple[int, DamagedLine]] = field(default_factory=list)
    """Lines of batch files that are no rows, with their batch."""
    missing: list[int] = field(default_factory=list)
    """Batches with a ledger and without their file: nothing of them counts."""


@dataclass(slots=True)
class _Listing:
    """What lies there."""

    sizes_bytes: dict[int, int] = field(default_factory=dict)
    ledger_etags: dict[int, str] = field(default_factory=dict)
    has_index: bool = False


def load_stored(store: ObjectStore, *, keep_lines: bool) -> StoredRun:
    """Read the ledgers of all batch files; the index where it is up to date, single ledgers else, rows at worst.

    What had to be read anew is written down: ledgers of files that had none, and the index. Raises StorageError.
    """
    listing = _list(store)
    groups: dict[int, list[StoredRow]] = {}
    run = StoredRun(sizes_bytes=listing.sizes_bytes)
    run.missing = sorted(listing.ledger_etags.keys() - listing.sizes_bytes.keys())
    is_current = True
    for head, lines in _from_index(store, listing):
        is_current &= _is_current(head, listing) and _take(run, groups, head, lines, keep_lines)
    known = frozenset(groups)
    unknown = sorted(listing.sizes_bytes.keys() - known)
    with tempfile.TemporaryFile() as fresh:
        for ledger in _read_all(store, unknown, listing):
            head = replace(ledger.head, ledger_etag=ledger.etag or "")
            if not _take(run, groups, head, ledger.lines, keep_lines):
                ledger = keep_scanned(store, replace(scan_ledger(store, head.batch), etag=ledger.etag))  # noqa: PLW2901
                head = replace(ledger.head, ledger_etag=ledger.etag or "")
                _take(run, groups, head, ledger.lines, keep_lines)
            _append(fresh, head, ledger.lines)
            run.sizes_bytes[head.batch] = head.size_bytes
        if unknown or not is_current:
            _write_index(store, listing, known, fresh)
    run.rows = [row for batch in sorted(groups) for row in groups[batch]]
    return run


def refresh_index(store: ObjectStore) -> None:
    """Bring the index up to date without keeping any row: what a long run does now and then, so that a resume after
    its death reads a few hundred ledgers and not all of them. Raises StorageError.
    """
    listing = _list(store)
    known = frozenset(head.batch for head, _ in _from_index(store, listing) if _is_current(head, listing))
    unknown = sorted(listing.sizes_bytes.keys() - known)
    if not unknown:
        return
    with tempfile.TemporaryFile() as fresh:
        for ledger in _read_all(store, unknown, listing):
            _append(fresh, replace(ledger.head, ledger_etag=ledger.etag or ""), ledger.lines)
        _write_index(store, listing, known, fresh)


def _list(store: ObjectStore) -> _Listing:
    listing = _Listing()
    for item in store.listing(layout.BATCHES):
        number = layout.batch_number(item.key)
        if number is not None:
            listing.sizes_bytes[number] = item.size_bytes
    for item in store.listing(layout.LEDGERS):
        number = layout.batch_number(item.key)
        if number is not None:
            listing.ledger_etags[number] = item.etag
        listing.has_index = listing.has_index or item.key == layout.LEDGER_INDEX
    return listing


def _is_current(head: LedgerHead, listing: _Listing) -> bool:
    return (
        listing.sizes_bytes.get(head.batch) == head.size_bytes
        and listing.ledger_etags.get(head.batch) == head.ledger_etag
    )


def _take(
    run: StoredRun, groups: dict[int, list[StoredRow]], head: LedgerHead, lines: Iterable[bytes], keep_lines: bool
) -> bool:
    """Add a batch's rows; False where a line is damaged or the batch is known already."""
    if head.batch in groups:
        return False
    try:
        groups[head.batch] = [_stored_row(head.batch, line, keep_line=keep_lines) for line in lines]
    except EntryDamaged:
        return False
    if head.crc32:
        run.crc32s[head.batch] = head.crc32
    run.damaged.extend((head.batch, item) for item in head.damaged)
    return True


def _write_index(store: ObjectStore, listing: _Listing, known: frozenset[int], fresh: IO[bytes]) -> None:
    """The old index without what is out of date, and what was read anew."""
    left = set(known)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "index.jsonl")
        with path.open("wb") as file:
            for head, lines in _from_index(store, listing):
                if _is_current(head, listing) and head.batch in left:
                    left.remove(head.batch)
                    _append(file, head, lines)
            fresh.seek(0)
            shutil.copyfileobj(fresh, file)
        store.upload(path, layout.LEDGER_INDEX, consume=True, durable=False)


def _append(spool: IO[bytes], head: LedgerHead, lines: Iterable[bytes]) -> None:
    spool.write(head.encode())
    spool.writelines(lines)


def _from_index(store: ObjectStore, listing: _Listing) -> Iterator[tuple[LedgerHead, list[bytes]]]:
    """The groups of the index, as far as it is whole."""
    if not listing.has_index:
        return
    lines = object_lines(store, layout.LEDGER_INDEX)
    try:
        for line in lines:
            head = LedgerHead.decode(line)
            group = list(islice(lines, head.entries))
            if len(group) == head.entries:
                yield head, group
    except (EntryDamaged, NotFound):
        return


def object_lines(store: ObjectStore, key: str) -> Iterator[bytes]:
    """Lines of an object with their ends, streamed; a last line without its end is not given. Raises NotFound."""
    tail = b""
    for block in blocks(store, key):
        # Our own lines hold no raw carriage return, the other thing at which bytes are split here.
        lines = (tail + block).splitlines(keepends=True)
        tail = b"" if lines[-1].endswith(b"\n") else lines.pop()
        yield from lines


def _read_all(store: ObjectStore, batches: list[int], listing: _Listing) -> Iterator[Ledger]:
    """The ledgers of these batches, several at a time; those that had to be made from rows are written down."""

    def read(batch: int) -> Ledger:
        ledger = read_ledger(store, batch, listing.sizes_bytes[batch], checks_entries=False)
        return keep_scanned(store, ledger) if ledger.is_scanned else ledger

    if store.reads_at_once == 1:
        yield from map(read, batches)
        return
    with ThreadPoolExecutor(store.reads_at_once) as pool:
        for start in range(0, len(batches), _WINDOW):
            yield from pool.map(read, batches[start : start + _WINDOW])
