"""`batchrun local` beside other batch runners on the same scripted model: each prompt is two calls of the shell and an
end, four prompts in flight. The model's own CPU is left out."""

import json
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from bench.contenders import IN_FLIGHT, OURS, PEERS, Contender, NotInstalled, Task, environ_of, install
from bench.measured import median
from bench.tree import CommandFailed, TreeMeasured, measure_tree

PROMPTS = 40
MORE_PROMPTS = 200
TOOL_TURNS = 2
MORE_TOOL_TURNS = 12
DELAY_MS = 100
MANY_IN_FLIGHT = 64
MANY_PROMPTS = 256
LIMIT_SECONDS = 300
"""Of one run: what takes longer has gone wrong."""


@dataclass(frozen=True)
class Load:
    """One run's size."""

    prompts: int = PROMPTS
    tool_turns: int = TOOL_TURNS
    delay_ms: int = 0
    in_flight: int = IN_FLIGHT

    @property
    def requests(self) -> int:
        """How many model requests it takes."""
        return self.prompts * (self.tool_turns + 1)


@dataclass(frozen=True)
class Figures:
    """Of one contender. `fast`: without the model's delay; `slow`: with it, and with memory."""

    slow: TreeMeasured
    fast: TreeMeasured
    start_cpu_seconds: float
    turn_cpu_seconds: float
    prompts_per_second: float

    def __str__(self) -> str:
        return (
            f"0 ms model {self.fast.wall_seconds:.2f} s wall, {self.fast.cpu_seconds:.2f} s CPU; "
            f"{DELAY_MS} ms model {self.slow.wall_seconds:.2f} s wall; peak PSS {self.slow.peak_pss_mb:.0f} MB; "
            f"start {self.start_cpu_seconds:.2f} s CPU, further turn {self.turn_cpu_seconds * 1000:.1f} ms CPU; "
            f"steady {self.prompts_per_second:.1f} prompts/s"
        )


def compare(folder: Path) -> Iterator[str]:
    """Lines with the figures, and ratios against the best peer in each."""
    yield f"peers, {PROMPTS} prompts of {TOOL_TURNS} tool turns and an end, {IN_FLIGHT} in flight"
    programs = install(OURS, folder)
    ours = _figures(OURS, programs, samples=3)
    yield f"  {OURS.name} ({OURS.how}): {ours}"
    peers = []
    for peer in PEERS:
        label = f"{' '.join(peer.requirements[:1])} ({peer.how})"
        try:
            peers.append(_figures(peer, install(peer, folder), samples=1))
            yield f"  {label}: {peers[-1]}"
        except (NotInstalled, CommandFailed) as why:
            yield f"  {label}: left out: {why}"
    many = Load(MANY_PROMPTS, delay_ms=DELAY_MS, in_flight=MANY_IN_FLIGHT)
    measured = _run(OURS, programs, many)
    ideal = many.requests * DELAY_MS / 1000 / MANY_IN_FLIGHT
    yield (
        f"  {OURS.name}, {MANY_PROMPTS} prompts, {MANY_IN_FLIGHT} in flight (numWorkers {MANY_IN_FLIGHT}, "
        f"promptsPerPod 1), {DELAY_MS} ms model: {measured.wall_seconds:.2f} s wall, {measured.cpu_seconds:.2f} s CPU; "
        f"ideal {ideal:.2f} s, ratio {measured.wall_seconds / ideal:.2f}"
    )
    if peers:
        yield from _ratios(ours, peers)


def _ratios(ours: Figures, peers: list[Figures]) -> Iterator[str]:
    yield "  ours against the best peer in each (below 1: ours takes less)"
    costs: tuple[tuple[str, Callable[[Figures], float]], ...] = (
        ("wall, 0 ms model", lambda figures: figures.fast.wall_seconds),
        ("CPU, 0 ms model", lambda figures: figures.fast.cpu_seconds),
        (f"wall, {DELAY_MS} ms model", lambda figures: figures.slow.wall_seconds),
        ("peak PSS", lambda figures: figures.slow.peak_pss_mb),
        ("CPU of the start", lambda figures: figures.start_cpu_seconds),
        ("CPU of a further turn", lambda figures: figures.turn_cpu_seconds),
        ("seconds for a prompt, steady", lambda figures: 1 / figures.prompts_per_second),
    )
    for what, of in costs:
        yield f"    {what}: ratio {of(ours) / min(of(peer) for peer in peers):.2f}"


def _figures(contender: Contender, programs: Path, *, samples: int) -> Figures:
    """The slow run is the first one: what it reads from the disk, the timed ones find in memory."""
    base = Load()
    slow = _run(contender, programs, replace(base, delay_ms=DELAY_MS), is_sampled=True)
    fast = median([_run(contender, programs, base) for _ in range(samples)])
    longer = replace(base, tool_turns=MORE_TOOL_TURNS)
    turn_cpu = (_run(contender, programs, longer).cpu_seconds - fast.cpu_seconds) / (longer.requests - base.requests)
    more = _run(contender, programs, replace(base, prompts=MORE_PROMPTS))
    prompt_cpu = (more.cpu_seconds - fast.cpu_seconds) / (MORE_PROMPTS - PROMPTS)
    return Figures(
        slow=slow,
        fast=fast,
        start_cpu_seconds=fast.cpu_seconds - PROMPTS * prompt_cpu,
        turn_cpu_seconds=turn_cpu,
        prompts_per_second=(MORE_PROMPTS - PROMPTS) / (more.wall_seconds - fast.wall_seconds),
    )


def _run(contender: Contender, programs: Path, load: Load, *, is_sampled: bool = False) -> TreeMeasured:
    """Raises CommandFailed, also where the model was asked too rarely: some do not tell by their exit code."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, _mock_model(load) as base_url:
        task = Task(Path(folder), base_url, load.prompts, load.in_flight)
        measured = measure_tree(
            contender.command(programs, task),
            folder=task.folder,
            environ=environ_of(contender, task),
            timeout_seconds=LIMIT_SECONDS,
            is_sampled=is_sampled,
        )
        with urllib.request.urlopen(base_url.removesuffix("/v1") + "/stats") as stats:
            completions = json.load(stats)["completions"]
    if completions != load.requests:
        raise CommandFailed(f"asked the model {completions} times, not {load.requests}")
    return measured


@contextmanager
def _mock_model(load: Load) -> Iterator[str]:
    """The base URL of a mock model in a process of its own."""
    options = ["--delay-ms", str(load.delay_ms), "--tool-turns", str(load.tool_turns)]
    command = [sys.executable, "-m", "bench.mock_model", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()
