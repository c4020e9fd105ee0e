"""What a run left behind, judged: rows, figures, and what the model was asked for each prompt."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_PRINTED_BOOT_ID = re.compile(r"boot ([0-9a-f]{32})\b")
OUTCOMES = ("completed", "truncated", "discarded", "failed", "not_run")


def requests_by_prompt(bodies: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Chat completions asked for, by the text of their prompt (the first thing the user says)."""
    return Counter(
        next(message["content"] for message in body["messages"] if message["role"] == "user") for body in bodies
    )


def prompt_of(row: Mapping[str, Any]) -> str:
    """The prompt's text in a row."""
    return next(str(turn["value"]) for turn in row["conversations"] if turn["from"] == "human")


def stored_rows(objects: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """Every row that is durable by now, in a batch file or as a part; `objects` are those of a run, by their key."""
    lines: list[bytes] = []
    for key, body in objects.items():
        if re.fullmatch(r"batch_\d+\.jsonl", key):
            lines += body.splitlines()
        elif key.startswith("parts/") and not key.endswith(".started"):
            lines += body.splitlines()[1:]
    return [json.loads(line) for line in lines]


def assert_every_prompt_once(rows: Sequence[Mapping[str, Any]], data_set: Sequence[Mapping[str, Any]]) -> None:
    """The merged result holds each row of the data set once, in its place, under its own name."""
    found = [(row["prompt_index"], row["id"], prompt_of(row)) for row in rows]
    assert found == [(index, row.get("id", ""), row["prompt"]) for index, row in enumerate(data_set)]
    assert len({row["key"] for row in rows}) == len(rows)


def assert_figures_add_up(statistics: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """statistics.json says the same as the rows, and its outcomes sum up to the total."""
    outcomes = statistics["outcomes"]
    assert statistics["total_prompts"] == sum(outcomes[name] for name in OUTCOMES) == len(rows)
    assert {name: count for name, count in outcomes.items() if count} == Counter(row["outcome"] for row in rows)
    assert statistics["api_calls"] == sum(row["api_calls"] for row in rows)


def assert_own_boot_ids(rows: Sequence[Mapping[str, Any]]) -> None:
    """Each prompt's command printed the boot id of a sandbox of its own, and its row names that very one."""
    for row in rows:
        printed = {found for turn in row["conversations"] for found in _PRINTED_BOOT_ID.findall(turn["value"])}
        assert printed == {row["sandbox"]["boot_id"]}, f"prompt {row['prompt_index']}"
    assert len({row["sandbox"]["boot_id"] for row in rows}) == len(rows)
