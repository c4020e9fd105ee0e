"""A storm of 429 over several workers, each a process of its own in a cluster: what the server sees of it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from batchrun_api.outcomes import Outcome
from batchrun_api.spec.model import Model
from batchrun_runner.agent.loop import Agent, ToolResult
from batchrun_runner.demo_model.server import DemoModel
from batchrun_runner.model.client import ModelClient
from batchrun_runner.records import PromptRow, Usage

WARM_UP_SECONDS = 4.0
CALM_SECONDS = 14.0
"""Measured after the storm."""


@dataclass(frozen=True)
class Storm:
    """Figures of one storm; rates are requests a second."""

    rate_before: float
    rate_in_storm: float
    """After the first ten seconds, or the first half of a shorter storm."""
    recovery_seconds: float
    """From the storm's end until a whole second had 80 % of the old rate."""
    failed: int
    prompts: int


class _NoTools:
    schemas: list[dict[str, Any]] = []

    async def execute(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        raise AssertionError(f"{name} was not offered: {arguments}")

    def take_usage(self) -> Usage:
        return Usage()


async def ride_out(
    *, storm_seconds: float, retry_after: float | None, workers: int, in_flight: int, delay_ms: int
) -> Storm:
    """Each worker has a client of its own and works on `in_flight` prompts at a time."""
    outcomes: list[Outcome] = []
    async with DemoModel(delay_ms=delay_ms, keep=1_000_000) as demo:
        end = time.monotonic() + WARM_UP_SECONDS + storm_seconds + CALM_SECONDS

        async def worker(number: int) -> None:
            async with ModelClient(Model(name="demo/scripted", base_url=demo.base_url)) as client:
                agent = Agent(client)

                async def lane(lane_number: int) -> None:
                    made = 0
                    while time.monotonic() < end:
                        key = f"{number}-{lane_number}-{made}"
                        made += 1
                        outcomes.append((await agent.run(PromptRow(0, key, f"Prompt {key}."), _NoTools())).outcome)

                await asyncio.gather(*map(lane, range(in_flight)))

        async def weather() -> tuple[float, float]:
            await asyncio.sleep(WARM_UP_SECONDS)
            start = time.monotonic()
            demo.storm(storm_seconds, retry_after)
            await asyncio.sleep(storm_seconds)
            return start, start + storm_seconds

        sky = asyncio.ensure_future(weather())
        await asyncio.gather(*map(worker, range(workers)))
        start, over = await sky
        times = list(demo.request_times)
    before = _rate(times, start - 2, start)
    settled = start + min(10.0, storm_seconds / 2)
    return Storm(
        rate_before=before,
        rate_in_storm=_rate(times, settled, over),
        recovery_seconds=_recovered(times, over, 0.8 * before),
        failed=sum(outcome is not Outcome.COMPLETED for outcome in outcomes),
        prompts=len(outcomes),
    )


def _rate(times: list[float], start: float, end: float) -> float:
    return sum(start <= at < end for at in times) / (end - start)


def _recovered(times: list[float], over: float, wanted: float) -> float:
    for step in range(int(CALM_SECONDS * 4) - 4):
        if _rate(times, over + step / 4, over + step / 4 + 1) >= wanted:
            return step / 4
    return float("inf")
