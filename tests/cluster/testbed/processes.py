"""Starting daemons and ending exactly those that we started.

A pid alone says little: it may belong to somebody else by the time it is read. A record holds pid, start time and boot
id, and a process counts as ours only when all three agree. What was started but not recorded (we died in between) or
started by our daemons (containerd's shims outlive it) is found by a marker that only our processes carry in their
environment.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.cluster.testbed.shell import environment, wait_until, write_atomically

MARKER_VARIABLE = "BATCHRUN_TESTBED_STATE"


@dataclass(frozen=True)
class Record:
    """A started process; `argv` tells whether it runs with the settings wanted now."""

    pid: int
    start_ticks: int
    boot_id: str
    argv: list[str]


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int | None:
    """Start time of a living process in clock ticks since boot; None when there is none (a zombie is none)."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)  # reap it if it is our own ended child
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()  # the name before may itself hold blanks and brackets
    return None if fields[0] in "ZX" else int(fields[19])


def is_alive(record: Record) -> bool:
    """True: that very process, not another with the same number, is running."""
    return record.boot_id == boot_id() and start_ticks(record.pid) == record.start_ticks


def record_path(pid_dir: Path, name: str) -> Path:
    return pid_dir / f"{name}.json"


def read_record(pid_dir: Path, name: str) -> Record | None:
    """None: never started, stopped, or the file is damaged (then the marker finds the process)."""
    try:
        return Record(**json.loads(record_path(pid_dir, name).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def read_records(pid_dir: Path) -> dict[str, Record]:
    names = sorted(path.stem for path in pid_dir.glob("*.json"))
    return {name: record for name in names if (record := read_record(pid_dir, name)) is not None}


def spawn(
    name: str, argv: Sequence[str], *, pid_dir: Path, log_dir: Path, state: Path, extra_env: Mapping[str, str]
) -> Record:
    """Start a daemon in its own session, output appended to `<log_dir>/<name>.log`, and record it."""
    for folder in (pid_dir, log_dir):
        folder.mkdir(parents=True, exist_ok=True)
    log = os.fspath(log_dir / f"{name}.log")
    pid = os.posix_spawnp(
        argv[0],
        list(argv),
        environment({**extra_env, MARKER_VARIABLE: str(state)}),
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
        setsigmask=[],
    )
    record = Record(pid, start_ticks(pid) or 0, boot_id(), list(argv))
    write_atomically(record_path(pid_dir, name), json.dumps(asdict(record)))
    return record


def kill(record: Record, *, with_signal: signal.Signals = signal.SIGKILL, timeout_seconds: float = 30) -> None:
    """Signal the recorded process if it is still that one, and wait until it is gone."""
    if not is_alive(record):
        return
    with suppress(ProcessLookupError):
        os.kill(record.pid, with_signal)
    wait_until(f"end of process {record.pid}", lambda: not is_alive(record), timeout_seconds=timeout_seconds)


def marked_pids(state: Path) -> Iterator[int]:
    """Processes that carry our marker: started by us or by what we started."""
    marker = f"{MARKER_VARIABLE}={state}".encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
        except OSError:  # it ended meanwhile, or is a kernel thread
            continue
        if marker in variables:
            yield int(entry.name)


def kill_marked(state: Path) -> None:
    """SIGKILL all marked processes until none is left (one may start another while we look)."""

    def none_left() -> bool:
        pids = [pid for pid in marked_pids(state) if start_ticks(pid) is not None]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not pids

    wait_until("end of all testbed processes", none_left, timeout_seconds=30)


def log_tail(log_dir: Path, name: str, lines: int = 15) -> str:
    """The last lines of a daemon's log, for error messages."""
    try:
        text = (log_dir / f"{name}.log").read_text(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
