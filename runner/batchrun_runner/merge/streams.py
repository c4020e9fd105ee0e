"""From batch files to the result in one pass: read in long ranges, written as they are wherever that is right."""

import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import IO
from zlib import crc32

import orjson

from batchrun_runner.ledger.entry import ROW_SCHEMA
from batchrun_runner.ledger.layout import batch_file
from batchrun_runner.ledger.stored import StoredRow, StoredRun
from batchrun_runner.merge.errors import LedgerDisagrees
from batchrun_runner.merge.rows import rewritten
from batchrun_runner.merge.selection import Pick
from batchrun_runner.storage.errors import NotFound, RangeMissing
from batchrun_runner.storage.store import ObjectStore

_RANGE_BYTES = 4 * 1024 * 1024
_AHEAD_BYTES = 24 * 1024 * 1024
"""Ranges that are being read or wait to be written. A single longer row passes alone."""
_AHEAD_RANGES = 4
"""For each thread that reads: one alone (a folder) shall not wait while what it has read is written."""
_MOST_BUFFERS = 512


@dataclass(slots=True)
class Range:
    """Picked rows that lie side by side in one batch file."""

    batch: int
    offset: int
    length: int = 0
    picks: list[Pick] = field(default_factory=list)

    def takes(self, pick: Pick) -> bool:
        """Whether the row continues this range."""
        return (
            pick.row.batch == self.batch
            and pick.row.offset == self.offset + self.length
            and self.length + pick.row.length <= _RANGE_BYTES
        )


def ranges(picks: Iterable[Pick]) -> Iterator[Range]:
    """The picks in their order, joined where they lie side by side."""
    current: Range | None = None
    for pick in picks:
        if current is None or not current.takes(pick):
            if current is not None:
                yield current
            current = Range(pick.row.batch, pick.row.offset)
        current.picks.append(pick)
        current.length += pick.row.length
    if current is not None:
        yield current


class _Buffers:
    """Memory for ranges, used again: fresh memory costs as much as reading, as the system hands it out page by page."""

    def __init__(self) -> None:
        self._free: list[bytearray] = []

    def take(self, length_bytes: int) -> bytearray:
        """At least so long, with anything in it."""
        buffer = self._free.pop() if self._free else bytearray()
        return buffer if len(buffer) >= length_bytes else bytearray(length_bytes)

    def give_back(self, buffer: bytearray) -> None:
        """Nobody looks at it any more."""
        if sum(map(len, self._free)) + len(buffer) <= _AHEAD_BYTES:
            self._free.append(buffer)


def read_ahead(store: ObjectStore, stored: StoredRun, wanted: Iterable[Range]) -> Iterator[tuple[Range, memoryview]]:
    """The bytes of each range, in order, its rows found whole; later ones are read and checked meanwhile, within
    a bound of memory. What it yields holds until the next one is asked for. Raises LedgerDisagrees and StorageError.
    """
    with ThreadPoolExecutor(store.reads_at_once) as pool:
        under_way: deque[tuple[Range, bytearray, Future[memoryview]]] = deque()
        bytes_ahead = 0
        buffers = _Buffers()
        try:
            for item in wanted:
                while under_way and (
                    bytes_ahead + item.length > _AHEAD_BYTES or len(under_way) >= _AHEAD_RANGES * store.reads_at_once
                ):
                    done, buffer, future = under_way.popleft()
                    yield done, future.result()
                    bytes_ahead -= done.length
                    buffers.give_back(buffer)
                buffer = buffers.take(item.length)
                view = memoryview(buffer)[: item.length]
                under_way.append((item, buffer, pool.submit(_whole_range, store, stored, item, view)))
                bytes_ahead += item.length
            while under_way:
                done, _, future = under_way.popleft()
                yield done, future.result()
        finally:
            for _, _, future in under_way:
                future.cancel()


def _whole_range(store: ObjectStore, stored: StoredRun, item: Range, view: memoryview) -> memoryview:
    try:
        store.read_into(batch_file(item.batch), item.offset, view)
    except (RangeMissing, NotFound) as error:
        raise LedgerDisagrees(item.batch, str(error)) from error
    is_whole_file = item.offset == 0 and item.length == stored.sizes_bytes.get(item.batch)
    if is_whole_file and crc32(view) == stored.crc32s.get(item.batch):
        return view
    for pick in item.picks:
        row = pick.row
        start = row.offset - item.offset
        head = _head(row.prompt_index)
        # Rows of another version are parsed when they are rewritten.
        if row.schema == ROW_SCHEMA and not (
            view[start : start + len(head)] == head and _is_whole(view[start : start + row.length], row)
        ):
            raise LedgerDisagrees(item.batch, f"no row of prompt {row.prompt_index} at byte {row.offset}")
    return view


def _head(prompt_index: int) -> bytes:
    """How every row begins."""
    return b'{"prompt_index":%d,' % prompt_index


class RowFile:
    """An output file that takes rows. Small pieces of one range are written together."""

    def __init__(self, file: IO[bytes]) -> None:
        self._descriptor = file.fileno()
        self._buffers: list[bytes | memoryview] = []
        self.rows = 0
        self.size_bytes = 0

    def add(self, *pieces: bytes | memoryview, rows: int = 1) -> None:
        """Put in whole rows. The pieces must stay alive until `flush`."""
        self.rows += rows
        self._buffers.extend(pieces)

    def flush(self) -> None:
        """Write what was put in."""
        for start in range(0, len(self._buffers), _MOST_BUFFERS):
            some = self._buffers[start : start + _MOST_BUFFERS]
            wanted = sum(map(len, some))
            written = os.writev(self._descriptor, some)
            while written < wanted:  # a disk that is nearly full, a signal
                rest = memoryview(b"".join(some))[written:]
                written += os.write(self._descriptor, rest)
            self.size_bytes += wanted
        self._buffers.clear()


def copy_rows(
    store: ObjectStore,
    stored: StoredRun,
    picks: Iterable[Pick],
    kept: RowFile,
    discarded: RowFile,
    see: Callable[[Pick, memoryview, int], None],
) -> None:
    """Write every picked row into the one or the other file. Raises LedgerDisagrees, MergeFailed and StorageError.

    `see` is told of each kept row, in order: its pick, its bytes (the row number may be the stored one), its length.
    """
    for item, view in read_ahead(store, stored, ranges(picks)):
        _copy_range(item, view, kept, discarded, see)
        kept.flush()
        discarded.flush()


def _copy_range(
    item: Range,
    view: memoryview,
    kept: RowFile,
    discarded: RowFile,
    see: Callable[[Pick, memoryview, int], None],
) -> None:
    run_start = run_end = run_rows = 0
    for pick in item.picks:
        row = pick.row
        start = row.offset - item.offset
        end = start + row.length
        is_as_stored = row.schema == ROW_SCHEMA and not pick.is_changed
        if pick.is_kept and is_as_stored and pick.index == row.prompt_index:
            # Untouched rows side by side are one write.
            if run_end != start:
                _end_run(kept, view, run_start, run_end, run_rows)
                run_start, run_rows = start, 0
            run_end = end
            run_rows += 1
            see(pick, view[start:end], row.length)
            continue
        _end_run(kept, view, run_start, run_end, run_rows)
        run_start = run_end = run_rows = 0
        target = kept if pick.is_kept else discarded
        if is_as_stored:
            number, rest = _head(pick.index), view[start + len(_head(row.prompt_index)) : end]
        else:
            number, rest = b"", memoryview(_rewritten(item.batch, bytes(view[start:end]), pick))
        target.add(number, rest)
        if pick.is_kept:
            see(pick, rest, len(number) + len(rest))
    _end_run(kept, view, run_start, run_end, run_rows)


def _is_whole(row: memoryview, stored: StoredRow) -> bool:
    """Whether the bytes are what was written, or else (older ledgers, files mended by hand) at least a line of JSON."""
    if stored.crc32 and crc32(row) == stored.crc32:
        return True
    line = bytes(row)
    return line.endswith(b"\n") and _is_json(line)


def _is_json(row: bytes) -> bool:
    try:
        orjson.loads(row)
    except orjson.JSONDecodeError:
        # orjson takes no half surrogates and no integers beyond 64 bits as they may stand in `extra`: ask again.
        return _is_json_for_all(row)
    return True


def _is_json_for_all(row: bytes) -> bool:
    try:
        json.loads(row.decode())
    except ValueError:
        return False
    return True


def _end_run(file: RowFile, view: memoryview, start: int, end: int, rows: int) -> None:
    if rows:
        file.add(view[start:end], rows=rows)


def _rewritten(batch: int, body: bytes, pick: Pick) -> bytes:
    try:
        return rewritten(body, pick.row, index=pick.index, key=pick.key, outcome=pick.outcome, reason=pick.reason)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise LedgerDisagrees(batch, f"no row at byte {pick.row.offset}: {error}") from error
