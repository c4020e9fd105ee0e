"""One line for each row of the result: what the page lists, searches and counts without reading the row."""

import re
import zlib
from base64 import b64encode
from typing import IO

import orjson

from batchrun_runner.ledger.entry import USAGE_NAMES
from batchrun_runner.merge.selection import Pick

PIECE_ROWS = 2000
PROMPT_BYTES = 240
"""Of the prompt, as it is written in JSON."""
_NEAR_BYTES = 1024
_FAR_BYTES = 64 * 1024
"""How far a prompt is looked for behind a long system prompt."""
_HUMAN = b'"from":"human","value":"'
"""Inside of a text the quotes would be escaped, so this is a turn."""
_TEXT = re.compile(rb'(?:[^"\\]|\\(?:[^u]|u[0-9a-fA-F]{4}))*')
_PROMPT_TOKENS, _COMPLETION_TOKENS = USAGE_NAMES.index("prompt_tokens"), USAGE_NAMES.index("completion_tokens")


class RowIndex:
    """Writes the index into a file, piece after piece, as rows are copied."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._lines: list[bytes] = []
        self.rows = 0

    def add(self, pick: Pick, row: memoryview, length_bytes: int) -> None:
        """The next row of the result; `row` are its first bytes at least, `length_bytes` its whole length there."""
        self._lines.append(index_line(pick, row, length_bytes))
        self.rows += 1
        if len(self._lines) == PIECE_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write what is left."""
        if self._lines:
            write_piece(self._file, "index", b"[" + b",\n".join(self._lines) + b"]")
            self._lines.clear()


def index_line(pick: Pick, row: memoryview, length_bytes: int) -> bytes:
    """JSON: index, outcome, reason, length, model calls, tool calls, failures of them, tokens, seconds, reward, id,
    tools, beginning of the prompt.
    """
    entry = orjson.loads(pick.row.line)
    stats = entry.get("tool_stats", {})
    usage = entry.get("usage")
    head = orjson.dumps(
        (
            pick.index,
            pick.outcome,
            pick.reason,
            length_bytes,
            entry.get("api_calls", 0),
            sum(counts[0] for counts in stats.values()),
            sum(counts[2] for counts in stats.values()),
            usage[_PROMPT_TOKENS] + usage[_COMPLETION_TOKENS] if usage else 0,
            round(entry.get("seconds", 0.0), 2),
            entry.get("reward"),
            entry.get("id", ""),
            " ".join(stats),
        )
    )
    return head[:-1] + b',"' + prompt_start(row) + b'"]'


def prompt_start(row: memoryview) -> bytes:
    """The beginning of the prompt as the inside of a JSON string; empty where it is not near the row's beginning."""
    near = bytes(row[:_NEAR_BYTES])
    found = near.find(_HUMAN)
    if found < 0 or found + len(_HUMAN) + PROMPT_BYTES > len(near):
        near = bytes(row[:_FAR_BYTES])
        found = near.find(_HUMAN)
        if found < 0:
            return b""
    start = found + len(_HUMAN)
    match = _TEXT.match(near[start : start + PROMPT_BYTES])
    return match[0].decode(errors="ignore").encode() if match else b""


def write_piece(file: IO[bytes], kind: str, body: bytes) -> None:
    """One element that holds data and is no program."""
    packed = b64encode(zlib.compress(body, 1))
    file.write(b'<script type="text/plain" data-piece="%s">%s</script>\n' % (kind.encode(), packed))
