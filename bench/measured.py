"""One command, measured from outside."""

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Measured:
    """Seconds of a whole command, children included."""

    wall_seconds: float
    cpu_seconds: float


def measure(command: Sequence[str]) -> Measured:
    """Run a command to its end. Raises CalledProcessError where it fails."""
    before, start = os.times(), time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - start, os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Measured(wall, cpu)


def median(samples: Sequence[Measured]) -> Measured:
    """The sample with the median wall time."""
    return sorted(samples, key=lambda sample: sample.wall_seconds)[len(samples) // 2]
