"""A batch file without a ledger, ours or the reference's: its rows are read and entries made of them."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from batchrun_api.outcomes import Outcome
from batchrun_api.toolsets import ALL_TOOLS
from batchrun_runner.columns import ROW_FEATURES, outcome_of_reference
from batchrun_runner.dataset.keys import text_digest
from batchrun_runner.ledger.entry import (
    FOREIGN_SCHEMA,
    MESSAGE_LIMIT_CHARS,
    ROW_SCHEMA,
    UNMARKED_SCHEMA,
    USAGE_NAMES,
    LedgerEntry,
)
from batchrun_runner.ledger.filters import calls_unknown_tools
from batchrun_runner.records import ToolStat, Usage

_THOUGHT = re.compile(r"<(?:think|REASONING_SCRATCHPAD)>\s*[^\s<]")


@dataclass(frozen=True, slots=True)
class DamagedLine:
    """A line of a batch file that is no row."""

    line: int
    reason: str


@dataclass(slots=True)
class Scanned:
    """What a batch file holds."""

    entries: list[LedgerEntry] = field(default_factory=list)
    damaged: list[DamagedLine] = field(default_factory=list)
    size_bytes: int = 0


def scan_batch_file(blocks: Iterable[bytes]) -> Scanned:
    """Entries of all rows, with their places. Damaged lines (torn by a crash, for instance) are named, not guessed."""
    scanned = Scanned()
    number = 0
    for line in _lines(blocks):
        number += 1
        offset = scanned.size_bytes
        scanned.size_bytes += len(line)
        if not line.strip():
            continue
        try:
            entry = entry_of_row(orjson.loads(line)).of_row(line, offset)
            is_as_written = line.startswith(b'{"prompt_index":%d,' % entry.prompt_index) and line.endswith(b"\n")
            scanned.entries.append(entry if is_as_written else replace(entry, schema=FOREIGN_SCHEMA))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            torn = "" if line.endswith(b"\n") else "torn line: "
            scanned.damaged.append(DamagedLine(number, f"{torn}{type(error).__name__}: {error}"[:200]))
    return scanned


def _lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Lines with their ends; the last one may lack it."""
    tail = b""
    for block in blocks:
        *lines, tail = (tail + block).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if tail:
        yield tail


def entry_of_row(row: dict[str, Any]) -> LedgerEntry:
    """As much of the entry as a row tells. Raises ValueError, TypeError, KeyError or AttributeError for other JSON."""
    conversations = row["conversations"]
    key = str(row.get("key") or "")
    texts = [str(turn["value"]) for turn in conversations if turn["from"] == "gpt"]
    thinking = sum(bool(_THOUGHT.search(text)) for text in texts)
    usage = _usage(row.get("usage") or {})
    outcome = _outcome(row)
    reason = str(row.get("reason") or "")
    is_filtered = outcome is Outcome.DISCARDED
    built_in = _tool_stats(row.get("tool_stats") or {})
    tool_stats = built_in | _tool_stats({stat["name"]: stat for stat in row.get("own_tool_stats") or ()})
    return LedgerEntry(
        key=key,
        outcome=outcome,
        prompt_index=int(row["prompt_index"]),
        reason=reason,
        message=str(row.get("message") or "")[:MESSAGE_LIMIT_CHARS],
        unfiltered_outcome=Outcome.COMPLETED if is_filtered else None,
        # The reference stores only samples with reasoning, wherever its model put it.
        has_reasoning=thinking > 0 or usage.reasoning_tokens > 0 or "outcome" not in row,
        has_unknown_tools=calls_unknown_tools(conversations, str(row.get("tools") or "[]"))
        or not built_in.keys() <= set(ALL_TOOLS),
        id=str(row.get("id") or ""),
        text="" if key else text_digest(_human_text(conversations)),
        api_calls=int(row.get("api_calls") or 0),
        usage=usage,
        tool_stats={
            tool: stat
            for tool, stat in tool_stats.items()
            if stat.count and (tool in ALL_TOOLS or tool not in built_in)
        },
        invalid_tool_calls=int(row.get("invalid_tool_calls") or 0),
        reward=None if row.get("reward") is None else float(row["reward"]),
        assistant_turns=len(texts),
        turns_with_reasoning=thinking,
        config_digest=str(row.get("config_digest") or ""),
        boot_id=str((row.get("sandbox") or {}).get("boot_id") or ""),
        **_seconds(row.get("seconds") or {}),
        schema=_schema(row),
    )


def _schema(row: dict[str, Any]) -> int:
    if tuple(row) == tuple(ROW_FEATURES):
        return ROW_SCHEMA
    return UNMARKED_SCHEMA if "outcome" in row else FOREIGN_SCHEMA


def _seconds(seconds: dict[str, Any]) -> dict[str, Any]:
    names = {"seconds": "total", "model_seconds": "model", "tool_seconds": "tools", "sandbox_seconds": "sandbox"}
    return {field: float(seconds.get(name) or 0.0) for field, name in names.items()}


def _outcome(row: dict[str, Any]) -> Outcome:
    return Outcome(row["outcome"]) if "outcome" in row else outcome_of_reference(row)


def _human_text(conversations: list[dict[str, Any]]) -> str:
    for turn in conversations:
        if turn["from"] == "human":
            return str(turn["value"])
    return ""


def _usage(usage: dict[str, Any]) -> Usage:
    return Usage(*(int(usage.get(name) or 0) for name in USAGE_NAMES))


def _tool_stats(stats: dict[str, Any]) -> dict[str, ToolStat]:
    return {
        str(tool): ToolStat(int(stat["count"]), int(stat["success"]), int(stat["failure"]))
        for tool, stat in stats.items()
    }
