"""One run of 60 prompts that is killed fifty times with SIGKILL, from its first start to its last merge.

Fifty-two starts at about a second of CPU each: five minutes were measured on two cores that others kept busy.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.harness.evidence import (
    assert_every_prompt_once,
    assert_figures_add_up,
    prompt_of,
    requests_by_prompt,
    stored_rows,
)
from tests.cluster.harness.kubectl import wait_for
from tests.cluster.harness.model import ModelServer
from tests.cluster.harness.runs import demo_prompt
from tests.contract.local.support import Workplace

PROMPTS = 60
START_UP, PLANNING, BATCHES, MERGE = "start-up", "planning", "batches", "merge"
# The order is the run's own: nothing is left to be killed in a batch once the first merge has begun.
EARLY = [START_UP] * 6 + [PLANNING] * 8 + [BATCHES] * 24
LATE = [MERGE] * 12
SEED = 20260729


@dataclass
class Story:
    """What happened so far, and the rule that must hold at every restart: what is stored is not asked for again."""

    place: Workplace
    model: ModelServer
    chance: random.Random
    kills: Counter[str] = field(default_factory=Counter)
    asked_when_stored: dict[str, int] = field(default_factory=dict)
    """Requests for each prompt when its row was first seen in the store."""

    def kill_in(self, phase: str) -> bool:
        """Start the run and kill it in this phase. False where it was over before the moment came."""
        plans, requests, half_results = self.plans(), self.model.requests, self.half_results()
        more, enough = self.chance.uniform(0, 1), self.chance.randint(1, 4)
        moments: dict[str, tuple[Callable[[], bool], float]] = {
            START_UP: (lambda: True, 0.8),
            PLANNING: (lambda: self.plans() > plans, 0.05),
            BATCHES: (lambda: self.model.requests >= requests + enough, 0.2),
            MERGE: (lambda: bool(self.half_results() - half_results), 0.05),
        }
        has_come, longest_seconds = moments[phase]
        with self.place.start("--sandbox", "process") as process:
            wait_for(
                f"the moment in {phase}", lambda: has_come() or process.poll() is not None, 120, poll_seconds=0.001
            )
            try:
                process.wait(more * longest_seconds)
            except subprocess.TimeoutExpired:
                process.kill()
            output = process.communicate(timeout=30)
        assert process.returncode in {0, -signal.SIGKILL}, output
        was_killed = process.returncode == -signal.SIGKILL
        self.kills[phase] += was_killed
        self.look()
        return was_killed

    def plans(self) -> int:
        """How many plans have begun to be written."""
        return len(list((self.place.result / "plans").glob("*")))

    def half_results(self) -> set[str]:
        """Results that a merge has begun to write. The run removes folders meanwhile, which os.walk passes over."""
        return {
            folder for folder, _, files in os.walk(self.place.result / ".batchrun") if "trajectories.jsonl" in files
        }

    def look(self) -> None:
        """Judge the store against the model's requests."""
        asked = requests_by_prompt(self.model.bodies)
        stored = {prompt_of(row) for row in stored_rows(self.place.objects())}
        assert self.asked_when_stored.keys() <= stored, "what was stored is gone"
        assert self.asked_when_stored == {prompt: asked[prompt] for prompt in self.asked_when_stored}
        for prompt in stored:
            self.asked_when_stored.setdefault(prompt, asked[prompt])


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_fifty_kills_at_random_moments_lose_nothing_and_pay_for_nothing_twice(
    place: Workplace, model: ModelServer, tmp_path: Path
) -> None:
    rows = [
        {"id": f"p{number}", "prompt": demo_prompt(f"Prompt {number}.", "echo here", delay_ms=100)}
        for number in range(PROMPTS)
    ]
    place.prompts(rows)
    place.spec(model={"name": "demo/scripted", "baseURL": model.base_url}, batchSize=4)
    story = Story(place, model, random.Random(SEED))
    early = EARLY.copy()
    story.chance.shuffle(early)

    for phase in early:
        story.kill_in(phase)
    assert len(story.asked_when_stored) < PROMPTS, "the early kills came too late: nothing was left for them"
    for phase in LATE:
        while not story.kill_in(phase):
            assert sum(story.kills.values()) < len(early) + len(LATE)
    last = place.run("--sandbox", "process")

    assert (last.returncode, last.stderr) == (0, "")
    assert story.kills == Counter(EARLY + LATE)
    story.look()
    assert len(story.asked_when_stored) == PROMPTS
    assert_every_prompt_once(place.rows(), rows)
    assert_figures_add_up(place.statistics(), place.rows())
    assert [key for key in place.objects() if key.startswith(("parts/", ".batchrun/tmp/", ".batchrun/scratch/"))] == []
    assert _without_times(place.statistics()) == _without_times(_uninterrupted(tmp_path / "once", place, model))


def _uninterrupted(folder: Path, like: Workplace, model: ModelServer) -> dict[str, Any]:
    """The statistics of the same run that nobody disturbs."""
    folder.mkdir()
    once = Workplace(folder)
    for name in ("prompts.jsonl", "run.yaml"):
        (folder / name).write_bytes((like.folder / name).read_bytes())
    before = model.requests
    assert once.run("--sandbox", "process").returncode == 0
    assert model.requests - before == 2 * PROMPTS
    return once.statistics()


def _without_times(statistics: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in statistics.items()
        if name not in {"completed_at", "duration_seconds", "seconds"} and not name.endswith("_seconds")
    }
