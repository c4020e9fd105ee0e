"""An event loop whose time is simulated: where nothing is left to do but wait, the clock jumps. No real I/O."""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from batchrun_runner.model.policy import Surroundings

_T = TypeVar("_T")


class _Selector(selectors.SelectSelector):
    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise AssertionError("everybody waits, and nothing will ever happen")
        self.now += timeout
        return []


class SimulatedLoop(asyncio.SelectorEventLoop):
    """`time()` starts at 0 seconds."""

    def __init__(self) -> None:
        self._simulated = _Selector()
        super().__init__(self._simulated)

    def time(self) -> float:
        return self._simulated.now


def run(work: Coroutine[Any, Any, _T]) -> tuple[_T, float]:
    """The result and how many simulated seconds it took."""
    loop = SimulatedLoop()
    try:
        return loop.run_until_complete(work), loop.time()
    finally:
        loop.close()


def around(random: float = 0.5) -> Surroundings:
    """The running loop's time."""
    loop = asyncio.get_running_loop()
    return Surroundings(monotonic=loop.time, wall_clock=loop.time, sleep=asyncio.sleep, random=lambda: random)
