"""`left_out.jsonl`: every stored row that is not in the result, with its reason. Nothing goes unseen."""

from itertools import chain
from typing import IO

import orjson

from batchrun_runner.ledger.stored import StoredRow, StoredRun
from batchrun_runner.merge.selection import DAMAGED, Selection, reason_left_out
from batchrun_runner.prompt_keys import sample_of


def write_left_out(file: IO[bytes], stored: StoredRun, selection: Selection) -> int:
    """Write the list; returns how many rows are on it."""
    count = 0
    for pick in chain(selection.picks, selection.orphans):
        if not pick.is_kept:
            file.write(_line(pick.row, pick.index, reason_left_out(pick)))
            count += 1
    for row, reason in selection.left_out:
        file.write(_line(row, row.prompt_index, reason))
        count += 1
    for batch, damaged in stored.damaged:
        document = {"batch": batch, "line": damaged.line, "reason": DAMAGED, "message": damaged.reason}
        file.write(orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE))
        count += 1
    return count


def _line(row: StoredRow, index: int, reason: str) -> bytes:
    entry = row.entry()
    document = {
        "batch": row.batch,
        "prompt_index": index,
        "sample": sample_of(row.key),
        "key": row.key,
        "id": entry.id,
        "reason": reason,
        "outcome": row.outcome,
        "message": entry.message,
    }
    return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)
