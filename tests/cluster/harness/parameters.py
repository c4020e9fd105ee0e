"""One run that sets many parameters at once, and what its requests and its result must then look like in both modes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.cluster.harness.evidence import assert_figures_add_up, prompt_of, requests_by_prompt
from tests.cluster.harness.runs import demo_prompt

RUN_NAME = "my_first_run"
API_KEY = "sk-of-this-test"
EPHEMERAL, SYSTEM = "Whisper, please.", "You are careful."
PREFILL = [{"role": "user", "content": "A shot."}, {"role": "assistant", "content": "An answer to it."}]


def script(text: str, *turns: Mapping[str, Any]) -> str:
    """A prompt that carries these turns of the demo model."""
    return f"{text}\n```demo\n{json.dumps(turns)}\n```\n"


def without_reasoning(text: str) -> str:
    """A prompt whose answer shows no reasoning."""
    return script(text, {"content": "done"})


_MADE_UP = {"reasoning": "hm", "tool_calls": [{"name": "made_up", "arguments": {}}]}
ROWS: list[dict[str, Any]] = [
    {"prompt": demo_prompt("In a folder.", "pwd"), "id": "task-1", "cwd": "/tmp", "level": 3, "tags": ["a"]},
    {"prompt": demo_prompt("Too long.", *[f"echo {number}" for number in range(5)]), "id": "task-2"},
    {"prompt": without_reasoning("Without a thought."), "id": "task-3"},
    {"prompt": script("A tool that is not there.", _MADE_UP, {"reasoning": "oh", "content": "done"}), "id": "task-4"},
    {"prompt": demo_prompt("Beyond maxSamples.", "echo never"), "id": "task-5"},
]
SPEC: dict[str, Any] = {
    "runName": RUN_NAME,
    "batchSize": 2,
    "numWorkers": 2,
    "maxSamples": 4,
    "distribution": {"terminal": 100, "file": 0},
    "agent": {"maxTurns": 2, "systemPrompt": SYSTEM, "ephemeralSystemPrompt": EPHEMERAL, "prefillMessages": PREFILL},
    "logging": {"level": "debug", "prefixChars": 12},
}
MODEL: dict[str, Any] = {
    "name": "vendor/model-1",
    "maxTokens": 321,
    "sampling": {"temperature": 0.5, "topP": 0.9, "seed": 7, "stop": ["END"]},
    "reasoning": {"effort": "high"},
    "extraBody": {"top_k": 40},
}
_REQUEST = {
    "model": "vendor/model-1",
    "max_tokens": 321,
    "temperature": 0.5,
    "top_p": 0.9,
    "seed": 7,
    "stop": ["END"],
    "reasoning_effort": "high",
    "top_k": 40,
}


def judge_requests(bodies: Sequence[Mapping[str, Any]], headers: Sequence[Mapping[str, str]]) -> None:
    """Every parameter of a request is in each of them; prompts beyond maxSamples are in none."""
    without_prefill = [{"messages": [m for m in body["messages"] if m not in PREFILL]} for body in bodies]
    asked = requests_by_prompt(without_prefill)
    # Two turns and the closing call of the one that is too long.
    assert asked == {row["prompt"]: calls for row, calls in zip(ROWS[:4], (2, 3, 1, 2), strict=True)}
    for body in bodies:
        assert {name: body.get(name) for name in _REQUEST} == _REQUEST
        first, *few_shots = body["messages"][:3]
        assert first["role"] == "system"
        assert SYSTEM in first["content"]
        assert EPHEMERAL in first["content"]
        assert few_shots == PREFILL
    offered = [{tool["function"]["name"] for tool in body.get("tools", [])} for body in bodies]
    assert offered.count(set()) == 1, "the closing call, and only that, has no tools"
    assert all(tools in ({"terminal", "process"}, set()) for tools in offered)
    assert {header.get("authorization") or header.get("Authorization") for header in headers} == {f"Bearer {API_KEY}"}


def judge_result(objects: Mapping[str, bytes]) -> None:
    """Rows, discarded rows, checkpoint and figures. `objects`: those of the run, by key."""

    def lines(key: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in objects[key].splitlines()]

    rows, discarded, statistics = (
        lines("trajectories.jsonl"),
        lines("discarded.jsonl"),
        json.loads(objects["statistics.json"]),
    )
    assert [(row["prompt_index"], row["id"], row["outcome"], row["reason"]) for row in rows] == [
        (0, "task-1", "completed", ""),
        (1, "task-2", "truncated", "MaxTurns"),
    ]
    assert [(row["prompt_index"], row["reason"]) for row in discarded] == [(2, "NoReasoning"), (3, "UnknownTools")]
    first = rows[0]
    assert prompt_of(first) == ROWS[0]["prompt"]
    assert first["conversations"][0] == {"from": "system", "value": SYSTEM, "tool_calls": []}
    assert json.loads(first["extra"]) == {"level": 3, "tags": ["a"]}
    assert any("/tmp" in turn["value"] for turn in first["conversations"] if turn["from"] == "tool")
    assert first["toolsets_used"] == ["terminal"]
    assert first["metadata"]["model"] == "vendor/model-1"
    assert (rows[1]["completed"], rows[1]["api_calls"]) == (False, 3)
    told_while_running = [EPHEMERAL, *(message["content"] for message in PREFILL)]
    assert not [(key, word) for key, body in objects.items() for word in told_while_running if word.encode() in body]
    checkpoint = json.loads(objects["checkpoint.json"])
    assert (checkpoint["run_name"], checkpoint["completed_prompts"]) == (RUN_NAME, [0, 1, 2, 3])
    assert len(checkpoint["batch_stats"]) == 2
    assert_figures_add_up(statistics, [*rows, *discarded])
    assert (statistics["run_name"], statistics["model"]) == (RUN_NAME, "vendor/model-1")
    assert (statistics["batch_size"], statistics["total_batches"], statistics["total_prompts"]) == (2, 2, 4)
    assert json.loads(statistics["distribution"]) == {"terminal": 100, "file": 0}
    assert statistics["tool_statistics"]["terminal"]["count"] == 3
    assert statistics["reasoning_statistics"]["turns_without_reasoning"] == 0
    assert statistics["discarded"] == {"NoReasoning": 1, "UnknownTools": 1}
