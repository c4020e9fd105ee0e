"""Many prompts at once over one client: faults that pass are waited out, faults that last hit only their own prompt."""

import asyncio
import json
import random
from typing import Any

from batchrun_api.outcomes import Outcome, Reason
from batchrun_api.spec.model import Model
from batchrun_runner.agent.loop import Agent
from batchrun_runner.demo_model.server import DemoModel
from batchrun_runner.model.client import ModelClient
from batchrun_runner.model.policy import Surroundings
from batchrun_runner.records import PromptResult, PromptRow

PASSING: list[dict[str, Any]] = [
    {"status": 429, "headers": {"Retry-After": "1"}},
    {"status": 500},
    {"status": 503, "body": "<html>"},
    {"body": {"error": {"code": 502, "message": "Provider returned error"}}},
    {"body": {"choices": []}},
    {"fault": "cut"},
    {"content": None},
]
LASTING: list[tuple[dict[str, Any], Reason]] = [
    ({"status": 400}, Reason.INVALID_REQUEST),
    ({"status": 400, "body": {"error": {"code": "context_length_exceeded"}}}, Reason.CONTEXT_LENGTH_EXCEEDED),
    ({"content": None, "finish_reason": "content_filter"}, Reason.CONTENT_FILTERED),
    ({"content": None}, Reason.EMPTY_REPLY),
    ({"status": 503}, Reason.PROVIDER_ERROR),
]
IN_FLIGHT = 8


class Clock:
    """Nobody waits: whoever sleeps moves the time on."""

    def __init__(self) -> None:
        self.now = 0.0

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)


def prompt(number: int, turns: list[Any]) -> PromptRow:
    return PromptRow(number, f"key-{number}", f"Prompt {number}.\n```demo\n{json.dumps(turns)}\n```")


async def run_all(rows: list[PromptRow], toolbox: Any) -> tuple[list[PromptResult], int, int]:
    """(results, requests, open connections at the end)."""
    clock = Clock()
    around = Surroundings(monotonic=lambda: clock.now, wall_clock=lambda: 0.0, sleep=clock.sleep)
    places = asyncio.Semaphore(IN_FLIGHT)
    async with DemoModel() as demo, ModelClient(Model(base_url=demo.base_url), around=around) as client:

        async def one(row: PromptRow) -> PromptResult:
            async with places:
                return await Agent(client).run(row, toolbox)

        results = await asyncio.gather(*map(one, rows))
        return results, demo.requests, demo.connections


async def test_passing_faults_in_a_third_of_the_requests_cost_no_prompt(lab: Any, tool_calls: Any) -> None:
    chance = random.Random(5)
    rows = []
    for number in range(60):
        turns = []
        for good in (tool_calls(), tool_calls(), {"content": f"answer {number}"}):
            faults = [chance.choice(PASSING) for _ in range(2) if chance.random() < 0.3]
            turns.append([*faults, good])
        rows.append(prompt(number, turns))
    results, requests, connections = await run_all(rows, lab.toolbox)
    assert [result.outcome for result in results] == [Outcome.COMPLETED] * 60
    assert [result.conversations[-1]["value"] for result in results] == [f"answer {number}" for number in range(60)]
    assert len(lab.toolbox.executed) == 120
    assert 180 < requests < 2 * 180
    assert connections <= IN_FLIGHT


async def test_lasting_faults_fail_exactly_their_own_prompts_for_exactly_their_reason(
    lab: Any, tool_calls: Any
) -> None:
    rows, expected = [], []
    for number in range(25):
        fault, reason = LASTING[number // 5]
        bad = number % 5 == 0
        rows.append(prompt(number, [tool_calls(), fault if bad else {"content": "done"}]))
        expected.append((Outcome.FAILED, reason) if bad else (Outcome.COMPLETED, None))
    results, _, _ = await run_all(rows, lab.toolbox)
    assert [(result.outcome, result.reason) for result in results] == expected
