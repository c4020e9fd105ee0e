"""A browser that dies is a failed call, and the next navigation has a new one."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

from tests.cluster.harness.lab import Lab
from tests.contract.browser.conftest import Service


def children_of(pid: int) -> list[int]:
    """Processes below a process, itself left out."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *children_of(int(child))]
    return found


def processes(*words: str) -> list[int]:
    """Processes below this one whose command lines hold all these words, oldest first."""
    lines = {pid: Path(f"/proc/{pid}/cmdline").read_bytes().decode() for pid in children_of(os.getpid())}
    return sorted(pid for pid, line in lines.items() if all(word in line for word in words))


def kill(pids: list[int]) -> None:
    assert pids
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def test_a_killed_browser_fails_the_call_and_is_started_again(service: Service, lab: Lab) -> None:
    call, other = service.browser(), service.browser()
    await call("navigate", url=f"{lab.url}/lab")
    await other("navigate", url=f"{lab.url}/lab")
    waiting = asyncio.create_task(call.failing("navigate", url=f"{lab.url}/endless"))
    await asyncio.to_thread(lab.wait_for, "/endless")
    kill(processes("--remote-debugging-pipe")[:1])
    failure = await waiting

    assert failure.kind == "browser_lost"
    assert (await other.failing("snapshot")).kind == "browser_lost"
    for one in (call, other):
        assert "cookies: none" in (await one("navigate", url=f"{lab.url}/cookies"))["snapshot"], "nothing is left"


async def test_a_page_whose_process_dies_fails_the_call_and_no_other_prompt(service: Service, lab: Lab) -> None:
    call, other = service.browser(), service.browser()
    await call("navigate", url=f"{lab.url}/lab")
    before = set(processes("--type=renderer"))
    await other("navigate", url=f"{lab.url}/lab")
    kill(sorted(before))
    failure = await call.failing("snapshot")

    assert failure.kind == "browser_lost"
    assert (await other("snapshot"))["title"] == "The lab"
    assert (await call("navigate", url=f"{lab.url}/lab"))["title"] == "The lab"


async def test_a_killed_driver_is_started_again_too(service: Service, lab: Lab) -> None:
    call = service.browser()
    await call("navigate", url=f"{lab.url}/lab")
    kill(processes("playwright/driver")[:1])
    assert (await call.failing("snapshot")).kind == "browser_lost"

    assert (await call("navigate", url=f"{lab.url}/lab"))["title"] == "The lab"
