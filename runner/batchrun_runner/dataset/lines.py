"""From blocks of bytes to lines. A line ends at a line feed and nowhere else: JSON may hold every other separator."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

ROW_LIMIT_BYTES = 16 * 1024 * 1024
"""Longest row; no model reads more, and every part of the system holds at least one row in memory."""


@dataclass(frozen=True, slots=True)
class Line:
    """One physical line."""

    number: int
    """From 1, blank lines counted: what an editor shows."""
    text: bytes | None
    """Without its line end; None where it is longer than the limit."""
    length_bytes: int


def split_lines(blocks: Iterable[bytes], limit_bytes: int = ROW_LIMIT_BYTES) -> Iterator[Line]:
    """Every line that is not blank. A line over the limit is passed over without being held."""
    number = 0
    pending: list[bytes] = []
    pending_bytes = 0
    for block in blocks:
        *ended, tail = block.split(b"\n")
        for piece in ended:
            number += 1
            pending.append(piece)
            line = _line(number, pending, pending_bytes + len(piece), limit_bytes)
            pending = []
            pending_bytes = 0
            if line is not None:
                yield line
        pending_bytes += len(tail)
        if pending_bytes <= limit_bytes:
            pending.append(tail)
        else:
            pending.clear()
    line = _line(number + 1, pending, pending_bytes, limit_bytes)
    if line is not None:
        yield line


def _line(number: int, pieces: list[bytes], length_bytes: int, limit_bytes: int) -> Line | None:
    if length_bytes > limit_bytes:
        return Line(number, None, length_bytes)
    text = (pieces[0] if len(pieces) == 1 else b"".join(pieces)).removesuffix(b"\r")
    return Line(number, text, length_bytes) if text.strip() else None
