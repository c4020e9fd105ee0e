"""The browser's service: how long it takes to start, what it costs in memory, and what a snapshot costs."""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.cluster.harness.lab import Lab

from batchrun_runner.browser.client import BrowserConnection
from batchrun_runner.local.browser import SERVICE
from batchrun_runner.web.errors import WebFailure
from bench.tree import descendants, pss_bytes

CONTEXTS = 8
SNAPSHOTS = 10
_SECONDS = 60


def compare(_: Path) -> Iterator[str]:
    """One line for each figure."""
    yield from asyncio.run(_measured())


async def _measured() -> list[str]:
    with Lab("127.0.0.1") as lab, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.sock"
        words = ["--socket", str(path), "--allow", "127.0.0.1/32"]
        began = time.perf_counter()
        service = await asyncio.create_subprocess_exec(*SERVICE, *words)
        try:
            return await _figures(service.pid, path, lab, began)
        finally:
            service.terminate()
            await service.wait()


async def _figures(pid: int, path: Path, lab: Lab, began: float) -> list[str]:
    async def socket() -> Path:
        return path

    browsers = [BrowserConnection(socket, _SECONDS) for _ in range(CONTEXTS)]
    try:
        await _failing_snapshot(browsers[0])
        listens, idle = time.perf_counter() - began, pss_mb(pid)
        await browsers[0].call("navigate", {"url": f"{lab.url}/lab"})
        first, one = time.perf_counter() - began - listens, pss_mb(pid)
        for browser in browsers[1:]:
            await browser.call("navigate", {"url": f"{lab.url}/lab"})
        all_of_them = pss_mb(pid)
        small = [await _timed_snapshot(browsers[0]) for _ in range(SNAPSHOTS)]
        await browsers[0].call("navigate", {"url": f"{lab.url}/long"})
        large = [await _timed_snapshot(browsers[0]) for _ in range(SNAPSHOTS)]
    finally:
        for browser in browsers:
            await browser.aclose()
    each = (all_of_them - one) / (CONTEXTS - 1)
    return [
        f"browser: the service listens after {listens:.2f} s with {idle:.0f} MB (PSS), and no Chromium yet",
        f"browser: the first page, Chromium's start included, after {first:.2f} s more, with {one:.0f} MB",
        f"browser: {CONTEXTS} prompts with a page each: {all_of_them:.0f} MB, {each:.0f} MB for each further one",
        f"browser: snapshot of a page of 11 elements {_median(small)}, of 3,000 paragraphs {_median(large)}",
    ]


async def _failing_snapshot(browser: BrowserConnection) -> None:
    """Nothing is open yet: the service's own answer."""
    with suppress(WebFailure):
        await browser.call("snapshot", {})


async def _timed_snapshot(browser: BrowserConnection) -> tuple[float, int]:
    """Seconds and bytes."""
    began = time.perf_counter()
    fields = await browser.call("snapshot", {})
    return time.perf_counter() - began, len(fields["snapshot"].encode())


def _median(taken: list[tuple[float, int]]) -> str:
    seconds, size = sorted(taken)[len(taken) // 2]
    return f"{seconds * 1000:.0f} ms ({size / 1000:.1f} kB)"


def pss_mb(pid: int) -> float:
    """Of a process and all below it, in 10^6 bytes; shared pages are shared out."""
    return sum(map(pss_bytes, {pid, *descendants(pid)})) / 1e6
