"""`--format hermes`: the reference's tagged ShareGPT form."""

import json
import re
from pathlib import Path
from typing import Any

from tests.unit.data.support import Run, answered, reference_rows
from tests.unit.export.support import COMMAND, RESULT, TOOLS, lines, load, rich

from batchrun_runner.export.command import run_export
from batchrun_runner.export.options import ExportOptions, Format, Reasoning

REFERENCE_KEYS = {
    "prompt_index",
    "conversations",
    "metadata",
    "completed",
    "partial",
    "api_calls",
    "toolsets_used",
    "tool_stats",
    "tool_error_counts",
}


def export(folder: Path, **options: Any) -> list[dict[str, Any]]:
    assert run_export(folder, ExportOptions(Format.HERMES, **options)) == 0
    return lines(folder / "trajectories.hermes.jsonl")


def blocks(tag: str, text: str) -> list[Any]:
    return [json.loads(body) for body in re.findall(rf"<{tag}>\n(.*?)\n</{tag}>", text)]


def test_calls_results_and_tools_stand_in_their_tags(run: Run, folder: Path) -> None:
    run.agent = rich
    run.run(["Do it."])
    (made,) = export(folder)
    assert made.keys() >= REFERENCE_KEYS
    turns = made["conversations"]
    assert [turn["from"] for turn in turns] == ["system", "human", "gpt", "tool", "gpt", "tool", "gpt"]
    assert all(turn.keys() == {"from", "value"} for turn in turns)
    system = turns[0]["value"]
    assert system.startswith("You are careful.\n\n")
    (tools,) = blocks("tools", system)
    assert tools == [
        {
            "name": tool["function"]["name"],
            "description": tool["function"]["description"],
            "parameters": tool["function"]["parameters"],
            "required": None,
        }
        for tool in TOOLS
    ]
    assert turns[2]["value"].startswith("<think>\nFirst &lt;/think&gt; I look.\n</think>\nI look.\n<tool_call>\n")
    assert blocks("tool_call", turns[2]["value"]) == [
        {"name": "terminal", "arguments": json.loads(COMMAND)},
        {"name": "read_file", "arguments": {"path": "a"}},
    ]
    assert blocks("tool_response", turns[3]["value"]) == [
        {"tool_call_id": "c1", "name": "terminal", "content": json.loads(RESULT)},
        {"tool_call_id": "c2", "name": "read_file", "content": "plain"},
    ]
    assert turns[4]["value"].startswith("<think>\n</think>\n<tool_call>\n")
    assert turns[6]["value"] == "<think>\nI know\nit.\n</think>\nThe answer."


def test_without_reasoning_there_is_no_think_block(run: Run, folder: Path) -> None:
    run.agent = rich
    run.run(["p"])
    (made,) = export(folder, reasoning=Reasoning.DROP)
    assert "<think>" not in json.dumps(made["conversations"])
    assert made["conversations"][-1]["value"] == "The answer."


def test_rows_of_the_reference_come_out_as_they_came_in(run: Run, folder: Path) -> None:
    call = '{"name": "terminal", "arguments": {"command": "ls"}}'
    response = '{"tool_call_id": "x1", "name": "terminal", "content": {"output": "a"}}'
    turns = [
        {"from": "system", "value": "You are a function calling AI model. <tools>\n[]\n</tools>"},
        {"from": "human", "value": "p"},
        {"from": "gpt", "value": f"<think>\nhm\n</think>\nI look.\n<tool_call>\n{call}\n</tool_call>"},
        {"from": "tool", "value": f"<tool_response>\n{response}\n</tool_response>"},
        {"from": "gpt", "value": "<think>\n</think>\ndone"},
    ]
    run.store.put("batch_0.jsonl", reference_rows(["p"], conversations=turns).encode())
    run.run(["p"])
    (made,) = export(folder)
    assert made["conversations"] == turns


def test_it_loads_with_the_real_library(run: Run, folder: Path, tmp_path: Path) -> None:
    run.agent = lambda row: rich(row) if row.index else answered(row)
    run.run(["a", "b"])
    made = export(folder)
    loaded = load("json", folder / "trajectories.hermes.jsonl", tmp_path / "cache")
    assert [row["conversations"] for row in loaded] == [row["conversations"] for row in made]
