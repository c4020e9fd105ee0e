"""What a scripted prompt does in its sandbox, and what its row says of it."""

from __future__ import annotations

import json
import re
from typing import Any

_RESPONSE = re.compile(r"<tool_response>\n(.*?)\n</tool_response>", re.DOTALL)


def calls_prompt(text: str, *calls: tuple[str, dict[str, Any]], reconnect: bool = False) -> str:
    """A prompt that makes one tool call a turn, then answers. `reconnect`: over a new connection each time."""
    turns: list[dict[str, Any]] = [
        {"reasoning": "next", "tool_calls": [{"name": name, "arguments": arguments}]} for name, arguments in calls
    ]
    turns.append({"reasoning": "all done", "content": "done"})
    if reconnect:
        turns = [turn | {"headers": {"connection": "close"}} for turn in turns]
    return f"{text}\n```demo\n{json.dumps(turns)}\n```\n"


def run_python(program: str, *arguments: str) -> tuple[str, dict[str, Any]]:
    """A terminal call that runs a Python program."""
    words = " ".join(f"'{argument}'" for argument in arguments)
    return "terminal", {"command": f"python3 - {words} <<'PROGRAM'\n{program}\nPROGRAM"}


def results(row: dict[str, Any]) -> list[dict[str, Any]]:
    """What the tools answered, in order."""
    turns = [turn["value"] for turn in row["conversations"] if turn["from"] == "tool"]
    blocks = [block for turn in turns for block in _RESPONSE.findall(turn)]
    return [json.loads(json.loads(block)["content"]) for block in blocks]


def outputs(row: dict[str, Any]) -> list[str]:
    """Outputs of the row's terminal calls; none of them may have failed."""
    found = results(row)
    assert all(result["error"] is None for result in found), found
    return [result["output"] for result in found]
