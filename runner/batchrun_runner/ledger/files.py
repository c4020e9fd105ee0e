"""The file of a ledger: a head line about the batch file, then an entry for each of its rows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import orjson

from batchrun_runner.ledger.entry import EntryDamaged, LedgerEntry
from batchrun_runner.ledger.layout import batch_file, ledger_file
from batchrun_runner.ledger.scan import DamagedLine, scan_batch_file
from batchrun_runner.storage.errors import NotFound, PreconditionFailed
from batchrun_runner.storage.store import ObjectStore, blocks, put_version


@dataclass(frozen=True, slots=True)
class LedgerHead:
    """What a ledger says about its batch file. It holds only while the file has exactly this size."""

    batch: int
    size_bytes: int
    entries: int
    """How many lines follow."""
    damaged: tuple[DamagedLine, ...] = ()
    ledger_etag: str = ""
    """In the index only: version of the ledger object that the entries were copied from."""
    crc32: int = 0
    """Of the whole batch file, where it was made of rows that are known to be whole; 0: not known."""

    def encode(self) -> bytes:
        """One line of JSON with its line end."""
        document = {
            "batch": self.batch,
            "size_bytes": self.size_bytes,
            "entries": self.entries,
            "damaged": [[item.line, item.reason] for item in self.damaged],
            "ledger_etag": self.ledger_etag,
            "crc32": self.crc32,
        }
        return orjson.dumps(
            {name: value for name, value in document.items() if value}, option=orjson.OPT_APPEND_NEWLINE
        )

    @classmethod
    def decode(cls, line: bytes) -> "LedgerHead":
        """Raises EntryDamaged."""
        try:
            document = orjson.loads(line)
            return cls(
                batch=int(document.get("batch", 0)),
                size_bytes=int(document.get("size_bytes", 0)),
                entries=int(document.get("entries", 0)),
                damaged=tuple(DamagedLine(int(line), str(reason)) for line, reason in document.get("damaged", ())),
                ledger_etag=str(document.get("ledger_etag", "")),
                crc32=int(document.get("crc32", 0)),
            )
        except (ValueError, TypeError, AttributeError) as error:
            raise EntryDamaged(f"not the head of a ledger: {line[:80]!r}") from error


@dataclass(frozen=True, slots=True)
class Ledger:
    """A whole ledger, its entries still as lines."""

    head: LedgerHead
    lines: Sequence[bytes]
    is_scanned: bool = False
    """Made by reading the batch file: rows tell less than the lost ledger did."""
    etag: str | None = None
    """Version of the ledger object that was read; None where there was none."""

    def entries(self) -> list[LedgerEntry]:
        """The entries. Raises EntryDamaged."""
        return [LedgerEntry.decode(line) for line in self.lines]

    def encode(self) -> bytes:
        """The content of the object."""
        return b"".join((self.head.encode(), *self.lines))


def new_ledger(
    batch: int,
    entries: Sequence[LedgerEntry],
    size_bytes: int,
    damaged: tuple[DamagedLine, ...] = (),
    *,
    file_crc32: int = 0,
) -> Ledger:
    """The ledger of a batch file with these rows. `damaged`: lines that an earlier version of the file held."""
    head = LedgerHead(batch, size_bytes, len(entries), damaged, crc32=file_crc32)
    return Ledger(head, [entry.encode() for entry in entries])


def decode_ledger(body: bytes) -> Ledger:
    """Raises EntryDamaged, also where lines are missing."""
    first, *lines = body.splitlines(keepends=True) or [b""]
    head = LedgerHead.decode(first)
    if len(lines) != head.entries or (lines and not lines[-1].endswith(b"\n")):
        raise EntryDamaged(f"the ledger of batch {head.batch} is cut off")
    return Ledger(head, lines)


def read_ledger(store: ObjectStore, batch: int, size_bytes: int, *, checks_entries: bool = True) -> Ledger:
    """The ledger of a batch file of this size. Where it is missing, damaged or about another file: the file is read.

    `checks_entries=False`: the caller looks at every entry anyway, and scans where one is damaged.
    """
    etag = None
    try:
        stored = store.get(ledger_file(batch))
        etag = stored.etag
        ledger = decode_ledger(stored.body)
        if checks_entries:
            ledger.entries()
        if ledger.head.batch == batch and ledger.head.size_bytes == size_bytes:
            return replace(ledger, etag=etag)
    except (NotFound, EntryDamaged):
        pass
    return replace(scan_ledger(store, batch), etag=etag)


def keep_scanned(store: ObjectStore, ledger: Ledger) -> Ledger:
    """Write down a ledger that was made from rows, unless a better one has come meanwhile; with its etag."""
    try:
        etag = put_version(store, ledger_file(ledger.head.batch), ledger.encode(), replaces=ledger.etag)
    except PreconditionFailed:
        return replace(ledger, etag=None)
    return replace(ledger, etag=etag)


def scan_ledger(store: ObjectStore, batch: int) -> Ledger:
    """A ledger made from the batch file itself. Raises NotFound."""
    scanned = scan_batch_file(blocks(store, batch_file(batch)))
    head = LedgerHead(batch, scanned.size_bytes, len(scanned.entries), tuple(scanned.damaged))
    return Ledger(head, [entry.encode() for entry in scanned.entries], is_scanned=True)
