"""A command with all that it starts, measured from outside.

    python -m bench.tree TIMEOUT_SECONDS IS_SAMPLED FOLDER COMMAND ...

Runs as a process of its own, to which orphans of the command fall, so that their CPU counts too.
"""

import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

SAMPLE_SECONDS = 0.05
_OWN_SECONDS = 30
"""What the measuring process may take besides the command."""
_PR_SET_CHILD_SUBREAPER = 36


class CommandFailed(Exception):
    """The command ended with another exit code than 0, or did not end in time; the message tells its last words."""


@dataclass(frozen=True)
class TreeMeasured:
    """What a command and all its descendants took."""

    wall_seconds: float
    cpu_seconds: float
    peak_pss_mb: float
    """Memory in 10^6 bytes, pages that processes share counted once; 0: not sampled."""


def measure_tree(
    command: Sequence[str], *, folder: Path, environ: Mapping[str, str], timeout_seconds: float, is_sampled: bool
) -> TreeMeasured:
    """Run a command in a folder to its end, its output to `output.log` there. Raises CommandFailed.

    `is_sampled`: ask for memory too, which costs the machine a little time.
    """
    log = folder / "output.log"
    arguments = [sys.executable, "-m", "bench.tree", str(timeout_seconds), str(int(is_sampled)), str(folder), *command]
    with log.open("wb") as output:
        done = subprocess.run(
            arguments,
            env={**os.environ, "BENCH_ENVIRONMENT": json.dumps(dict(environ))},
            stdout=subprocess.PIPE,
            stderr=output,
            timeout=timeout_seconds + _OWN_SECONDS,
            check=False,
        )
    if done.returncode:
        words = log.read_text(errors="replace").strip().splitlines()
        raise CommandFailed(f"{Path(command[0]).name}: {words[-1] if words else done.returncode}")
    return TreeMeasured(**json.loads(done.stdout))


def descendants(of: int) -> set[int]:
    """All processes that live below another one."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found: set[int] = set()
    waiting = list(children.get(of, ()))
    while waiting:
        pid = waiting.pop()
        found.add(pid)
        waiting += children.get(pid, ())
    return found


def pss_bytes(pid: int) -> int:
    """Its memory, pages that it shares shared out; 0 for a process that has ended."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def _end_left_overs() -> None:
    """Kill what the command left behind and wait for it: only what has been waited for counts as CPU of children."""
    while left := descendants(os.getpid()):
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            while True:
                os.waitpid(-1, 0)


def _measure(command: Sequence[str], folder: str, timeout_seconds: float, is_sampled: bool) -> TreeMeasured:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    environ = json.loads(os.environ["BENCH_ENVIRONMENT"])
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    ended = select.poll()
    ended.register(os.pidfd_open(process.pid), select.POLLIN)
    peak, patience_seconds = 0, SAMPLE_SECONDS if is_sampled else timeout_seconds
    while not ended.poll(patience_seconds * 1000) and time.perf_counter() - start < timeout_seconds:
        peak = max(peak, sum(pss_bytes(pid) for pid in descendants(os.getpid())))
    wall = time.perf_counter() - start
    status = process.poll()
    _end_left_overs()
    if status is None:
        sys.exit(f"not done after {timeout_seconds:.0f} s")
    if status:
        sys.exit(f"exit code {status}")
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return TreeMeasured(wall, usage.ru_utime + usage.ru_stime, peak / 1e6)


if __name__ == "__main__":
    result = _measure(sys.argv[4:], sys.argv[3], float(sys.argv[1]), sys.argv[2] == "1")
    sys.stdout.write(json.dumps(asdict(result)))
