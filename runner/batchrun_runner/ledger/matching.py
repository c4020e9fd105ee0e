"""Which stored row belongs to which prompt of the data set."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from batchrun_runner.ledger.stored import StoredRow


@dataclass(frozen=True, slots=True)
class Superseded:
    """A row that another one of the same prompt stands in front of."""

    row: StoredRow
    is_double: bool
    """Both ended the same way as far as resume goes; else a failed one was replaced by a done one."""


class Matcher:
    """Takes rows out one by one: by key, and those of the reference by text, occurrence by occurrence.

    For each key it holds one row: done before failed, then the first. What is never taken is orphaned.
    """

    def __init__(self, rows: Iterable[StoredRow]) -> None:
        self.superseded: list[Superseded] = []
        self._by_key: dict[str, StoredRow] = {}
        self._by_text: dict[str, deque[StoredRow]] = {}
        for row in rows:
            if row.key:
                self._add(row)
            else:
                self._by_text.setdefault(row.text, deque()).append(row)

    @property
    def needs_texts(self) -> bool:
        """Whether there are rows that only a text can match."""
        return bool(self._by_text)

    def _add(self, row: StoredRow) -> None:
        current = self._by_key.get(row.key)
        if current is None:
            self._by_key[row.key] = row
        elif row.is_done > current.is_done:
            self._by_key[row.key] = row
            self.superseded.append(Superseded(current, is_double=False))
        else:
            self.superseded.append(Superseded(row, is_double=row.is_done == current.is_done))

    def take(self, key: str, text: str) -> StoredRow | None:
        """The stored row of this prompt, done or failed; None where it never came to an end."""
        row = self._by_key.pop(key, None)
        if not self._by_text:
            return row
        if row is not None and row.is_done:
            replaced = self._take_by_text(text, is_done=False)
            if replaced is not None:
                self.superseded.append(Superseded(replaced, is_double=False))
            return row
        by_text = self._take_by_text(text, is_done=True) or (None if row else self._take_by_text(text, is_done=False))
        if by_text is None:
            return row
        if row is not None:
            self.superseded.append(Superseded(row, is_double=False))
        return by_text

    def _take_by_text(self, text: str, *, is_done: bool) -> StoredRow | None:
        rows = self._by_text.get(text)
        found = next((row for row in rows if row.is_done is is_done), None) if rows else None
        if rows and found:
            rows.remove(found)
        return found

    def left(self) -> list[StoredRow]:
        """Rows that nobody took, by batch and place."""
        rows = [*self._by_key.values(), *(row for rows in self._by_text.values() for row in rows)]
        return sorted(rows, key=lambda row: (row.batch, row.offset))
