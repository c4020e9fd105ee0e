"""What the tests of exports share."""

import json
from pathlib import Path
from typing import Any

import datasets

from batchrun_api.outcomes import Outcome
from batchrun_runner.agent.conversation import Turn, conversation
from batchrun_runner.model.calls import ToolCall
from batchrun_runner.records import PromptResult, PromptRow
from batchrun_runner.tools.registry import schemas

COMMAND = '{"command":"echo \\"</tool_call>\\""}'
RESULT = '{"output":"</tool_response>","exit_code":0}'
TOOLS = schemas(("terminal", "read_file"))


def call(number: int, name: str = "terminal", arguments: str = COMMAND) -> ToolCall:
    return ToolCall(f"c{number}", name, json.loads(arguments), "", arguments, {})


def rich(row: PromptRow) -> PromptResult:
    """Two calls in one turn, reasoning with a closing tag in it, a turn without reasoning, a saved system prompt."""
    turns = [
        Turn(
            "I look.",
            "First </think> I look.",
            True,
            (call(1), call(2, "read_file", '{"path":"a"}')),
            [RESULT, "plain"],
        ),
        Turn("", "", False, (call(3),), ["[1, 2]"]),
        Turn("The answer.", "I know\nit.", True),
    ]
    return PromptResult(
        Outcome.COMPLETED,
        conversations=conversation("You are careful.", row.prompt, turns),
        api_calls=3,
        tools=json.dumps(TOOLS),
        assistant_turns=3,
        turns_with_reasoning=2,
    )


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]]


def load(kind: str, path: Path, cache: Path, features: datasets.Features | None = None) -> Any:
    return datasets.load_dataset(kind, data_files=str(path), split="train", cache_dir=str(cache), features=features)
