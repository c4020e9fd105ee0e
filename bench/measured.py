"""One command, measured from outside."""

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar


@dataclass(frozen=True)
class Measured:
    """What a whole command took, children included."""

    wall_seconds: float
    cpu_seconds: float
    peak_rss_mb: float
    """The largest resident set of the command or of one of its children, in 10^6 bytes; never less than that of this
    process when it began the command, which Linux hands on."""

    def __str__(self) -> str:
        return f"{self.wall_seconds:.2f} s wall, {self.cpu_seconds:.2f} s CPU, {self.peak_rss_mb:.0f} MB at most"


def measure(command: Sequence[str]) -> Measured:
    """Run a command to its end. Raises CalledProcessError where it fails."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return Measured(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6)


class Timed(Protocol):
    """A sample with a wall time."""

    @property
    def wall_seconds(self) -> float: ...


Sample = TypeVar("Sample", bound=Timed)


def median(samples: Sequence[Sample]) -> Sample:
    """The sample with the median wall time."""
    return sorted(samples, key=lambda sample: sample.wall_seconds)[len(samples) // 2]
