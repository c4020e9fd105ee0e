"""Which rows share a batch (docs/decisions/0011): as they come, or equal images together. Spools to files."""

import os
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple, Protocol

from batchrun_api.image_names import whole_name
from batchrun_api.plan import PlannedBatch
from batchrun_api.spec import BatchRunSpec

_HELD_BYTES = 32 * 1024 * 1024
"""Rows that wait in memory for others of their image; what is more waits on disk."""
_OBJECT_BYTES = 64
"""About what Python needs for a line besides its text."""


class Indices(NamedTuple):
    """Where the plan has what a row's container needs; -1: as the run says. And whether its pod needs a browser."""

    image: int = -1
    container: int = -1
    browser: bool = False


class BatchWriter:
    """Writes batches side by side into one file and keeps where each lies."""

    def __init__(self, rows: BinaryIO, first_number: int) -> None:
        self.batches: list[PlannedBatch] = []
        self._rows = rows
        self._number = first_number
        self._offset = 0

    def write(self, lines: Sequence[bytes], indices: Sequence[Indices]) -> None:
        """Write one batch. Lines and indices are as in `Batching.add`."""
        begin = b'{"batch":%d,' % self._number
        body = b"".join(piece for line in lines for piece in (begin, line))
        self._rows.write(body)
        has_own = any(row.container >= 0 for row in indices)
        planned = PlannedBatch(
            number=self._number,
            offset=self._offset,
            length=len(body),
            images=[row.image for row in indices],
            containers=[row.container for row in indices] if has_own else [],
            browser=any(row.browser for row in indices),
        )
        self.batches.append(planned)
        self._number += 1
        self._offset += len(body)


class Batching(Protocol):
    """Takes rows in data set order and hands whole batches to a `BatchWriter`."""

    def add(self, line: bytes, name: str, indices: Indices) -> None:
        """Take a row: a line of one JSON object, which is not empty, without its opening brace.

        `name` is its image as written (empty: the run's default), `indices` are those in the plan.
        """

    def finish(self) -> None:
        """Write what is still open."""


def batching_of(spec: BatchRunSpec, writer: BatchWriter, waiting: BinaryIO) -> Batching:
    """As `spec.batching` says; `waiting` is an empty file, to write and read, for rows that wait."""
    if spec.batching == "DataSetOrder":
        return DataSetOrder(writer, spec.batch_size)
    return GroupByImage(writer, spec.batch_size, spec.sandbox.image, waiting)


class DataSetOrder:
    """Batches of `size` rows as they come."""

    def __init__(self, writer: BatchWriter, size: int) -> None:
        self._writer = writer
        self._size = size
        self._lines: list[bytes] = []
        self._indices: list[Indices] = []

    def add(self, line: bytes, name: str, indices: Indices) -> None:
        """See `Batching`."""
        self._lines.append(line)
        self._indices.append(indices)
        if len(self._lines) == self._size:
            self.finish()

    def finish(self) -> None:
        """See `Batching`."""
        if self._lines:
            self._writer.write(self._lines, self._indices)
            self._lines, self._indices = [], []


@dataclass(slots=True)
class _Group:
    """Rows of one image that wait for a full batch."""

    lines: list[bytes | int] = field(default_factory=list)
    """The text, or where it begins in the file of waiting rows."""
    indices: list[Indices] = field(default_factory=list)


class GroupByImage:
    """A batch as soon as `size` rows of one image are there; in the end the rests, none of them cut."""

    def __init__(self, writer: BatchWriter, size: int, default_image: str, waiting: BinaryIO) -> None:
        self._writer = writer
        self._size = size
        self._default_image = default_image
        self._waiting = waiting
        self._held_bytes = 0
        self._groups: dict[str, _Group] = {}
        """By the image's whole name, in the order in which the rows that wait have come."""
        self._whole: dict[str, str] = {}

    def add(self, line: bytes, name: str, indices: Indices) -> None:
        """See `Batching`."""
        whole = self._whole.get(name)
        if whole is None:
            whole = self._whole[name] = whole_name(name or self._default_image)
        group = self._groups.get(whole)
        if group is None:
            group = self._groups[whole] = _Group()
        group.lines.append(line)
        group.indices.append(indices)
        self._held_bytes += len(line) + _OBJECT_BYTES
        if len(group.lines) == self._size:
            self._write([self._groups.pop(whole)])
        if self._held_bytes > _HELD_BYTES:
            self._spill()

    def finish(self) -> None:
        """See `Batching`."""
        for groups in packed(list(self._groups.values()), self._size):
            self._write(groups)
        self._groups.clear()

    def _write(self, groups: Sequence[_Group]) -> None:
        lines = [self._text(line) for group in groups for line in group.lines]
        self._writer.write(lines, [row for group in groups for row in group.indices])

    def _text(self, line: bytes | int) -> bytes:
        if isinstance(line, bytes):
            self._held_bytes -= len(line) + _OBJECT_BYTES
            return line
        self._waiting.seek(line)
        return self._waiting.readline()

    def _spill(self) -> None:
        """Move every row that waits in memory to the disk."""
        place = self._waiting.seek(0, os.SEEK_END)
        for group in self._groups.values():
            for index, line in enumerate(group.lines):
                if isinstance(line, bytes):
                    self._waiting.write(line)
                    group.lines[index] = place
                    place += len(line)
        self._held_bytes = 0


def packed(groups: Sequence[_Group], size: int) -> list[list[_Group]]:
    """The groups as batches of at most `size` rows, none of them cut; each goes where it leaves the least room."""
    batches: list[list[_Group]] = []
    with_room: list[tuple[int, int]] = []
    for group in groups:
        rows = len(group.indices)
        fitting = bisect_left(with_room, (rows, 0))
        if fitting < len(with_room):
            room, index = with_room.pop(fitting)
        else:
            room, index = size, len(batches)
            batches.append([])
        batches[index].append(group)
        if room > rows:
            insort(with_room, (room - rows, index))
    return batches
