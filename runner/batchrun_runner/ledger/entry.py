"""One line of a ledger: how a prompt ended, what filters look at, what statistics sum up, and where its row lies."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any
from zlib import crc32

import orjson

from batchrun_api.outcomes import DONE_OUTCOMES, Outcome
from batchrun_runner.records import ToolStat, Usage

ROW_SCHEMA = 5
"""Version of the row's columns (`columns.ROW_FEATURES`); rows of another version are rewritten by the merge.
4 had no `own_tool_stats`, 3 no `sample`, 2 no `verification`."""
UNMARKED_SCHEMA = 1
"""Version of the rows whose entry names none: those without `seconds`, `sampling` and `occurrence`."""
FOREIGN_SCHEMA = 0
"""Rows that somebody else wrote, the reference for instance."""
MESSAGE_LIMIT_CHARS = 400
USAGE_NAMES = tuple(item.name for item in fields(Usage))
"""Order of the numbers in an entry's `usage`."""


class EntryDamaged(ValueError):
    """The line is not a ledger entry."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """How one prompt ended. Fields with their default value are left out in the file; only `schema` is always there."""

    key: str
    """Identity of the prompt; empty for a row of the reference."""
    outcome: Outcome
    """As the row says; the filters of its time are in it."""
    prompt_index: int = -1
    """Row number when it ran; the data set may have changed since."""
    reason: str = ""
    message: str = ""
    unfiltered_outcome: Outcome | None = None
    """Before filters, where that differs from `outcome`."""
    unfiltered_reason: str = ""
    has_reasoning: bool = False
    has_unknown_tools: bool = False
    id: str = ""
    text: str = ""
    """Digest of the prompt's text, where there is no key."""
    writer: str = ""
    attempts: int = 1
    api_calls: int = 0
    usage: Usage = Usage()  # noqa: RUF009 - frozen
    tool_stats: Mapping[str, ToolStat] = field(default_factory=dict)
    invalid_tool_calls: int = 0
    reward: float | None = None
    """What the verifier said; None: there was none, or it gave no verdict."""
    assistant_turns: int = 0
    turns_with_reasoning: int = 0
    seconds: float = 0.0
    """The whole time of the prompt; the three below are parts of it."""
    model_seconds: float = 0.0
    tool_seconds: float = 0.0
    sandbox_seconds: float = 0.0
    ended_at: float = 0.0
    """Seconds since the epoch; 0: not known."""
    config_digest: str = ""
    boot_id: str = ""
    schema: int = ROW_SCHEMA
    offset: int = 0
    """First byte of the row in the batch file."""
    length: int = 0
    """Bytes of the row with its line end."""
    crc32: int = 0
    """Of these bytes, when the row was last known to be whole; 0: not known. Six times as fast to check as JSON."""

    @property
    def is_done(self) -> bool:
        """Whether resume leaves this prompt alone."""
        return self.outcome in DONE_OUTCOMES

    def of_row(self, row: bytes, offset: int) -> "LedgerEntry":
        """The entry with its row, which is whole, at this place."""
        return replace(self, offset=offset, length=len(row), crc32=crc32(row))

    def encode(self) -> bytes:
        """One line of JSON with its line end."""
        document = {
            name: getattr(self, name)
            for name, default in _DEFAULTS.items()
            if getattr(self, name) != default and name not in {"usage", "tool_stats"}
        }
        if self.usage != Usage():
            document["usage"] = [getattr(self.usage, name) for name in USAGE_NAMES]
        if self.tool_stats:
            document["tool_stats"] = {
                tool: [stat.count, stat.success, stat.failure] for tool, stat in sorted(self.tool_stats.items())
            }
        return orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)

    @classmethod
    def decode(cls, line: bytes) -> "LedgerEntry":
        """The entry of a line. Raises EntryDamaged."""
        try:
            document: dict[str, Any] = orjson.loads(line)
            document.setdefault("schema", UNMARKED_SCHEMA)
            document["outcome"] = Outcome(document["outcome"])
            if "unfiltered_outcome" in document:
                document["unfiltered_outcome"] = Outcome(document["unfiltered_outcome"])
            if "usage" in document:
                document["usage"] = Usage(*map(int, document["usage"]))
            if "tool_stats" in document:
                document["tool_stats"] = {
                    tool: ToolStat(*map(int, counts)) for tool, counts in document["tool_stats"].items()
                }
            return cls(**{name: value for name, value in document.items() if name in _DEFAULTS})
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise EntryDamaged(f"not a ledger entry: {line[:80]!r}") from error


_DEFAULTS: dict[str, Any] = {
    item.name: {} if item.name == "tool_stats" else item.default for item in fields(LedgerEntry)
} | {"schema": UNMARKED_SCHEMA}
