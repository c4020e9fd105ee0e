"""The documents name all that the code can say."""

import re
from pathlib import Path

from batchrun_api.outcomes import Outcome, Reason

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_every_reason_stands_in_the_table_of_how_a_prompt_ends_and_no_other() -> None:
    text = (DOCS / "trajectories.md").read_text()
    section = text[text.index("## How a prompt ends") :]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("| `")]

    named = {name: outcome for outcome, reasons in rows for name in re.findall(r"`(\w+)`", reasons)}
    beside = set(re.findall(r"`([A-Z]\w+)`", section.rpartition("|")[2]))
    assert named.keys() | beside == {str(reason) for reason in Reason}
    assert not named.keys() & beside
    outcomes = {name for outcome, _ in rows for name in re.findall(r"`(\w+)`", outcome)} - {"partial"}
    assert outcomes == {str(outcome) for outcome in Outcome if outcome is not Outcome.INTERRUPTED}


def test_every_figure_of_the_statistics_is_said_to_count_something() -> None:
    text = (DOCS / "trajectories.md").read_text()
    section = text[text.index("## What `statistics.json` counts") : text.index("## How a prompt ends")]
    keys = {name for line in section.splitlines() if line.startswith("|") for name in re.findall(r"`(\w+)`", line)}

    assert {"invalid_tool_calls", "tool_statistics", "api_calls", "tokens", "seconds", "outcomes", "rows"} <= keys
    assert re.search(r"`invalid_tool_calls` \| those whose rows are kept", section)
