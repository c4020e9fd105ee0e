"""Waiting for what must come true, and looking at processes."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

PATIENCE_SECONDS = 10


async def until(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    """Return once the condition holds; fail when it does not in time."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        holds = condition()
        if inspect.isawaitable(holds):
            holds = await holds
        if holds:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the condition did not come true")


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except FileNotFoundError:
        return False


def names(folder: Path) -> list[str]:
    """What a folder holds, sorted."""
    return sorted(path.name for path in folder.iterdir())


def status_kib(pid: int, field: str) -> int:
    """A figure of /proc/PID/status in KiB: VmRSS, VmHWM, ..."""
    return int(Path(f"/proc/{pid}/status").read_text().split(f"{field}:")[1].split()[0])
