"""The demo model in a thread of the test process, on an address that pods reach, with its counters at hand."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Any, Self

from batchrun_runner.demo_model.script import parse_script
from batchrun_runner.demo_model.server import DemoModel


class ModelServer:
    """`base_url` and counters of a demo model that runs while the context is open."""

    def __init__(self, host: str, *, script: list[dict[str, Any]] | None = None, delay_ms: int = 0) -> None:
        self._demo = DemoModel(host=host, script=parse_script(script or []), delay_ms=delay_ms, keep=2000)
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=[self._serve()], daemon=True)

    async def _serve(self) -> None:
        async with self._demo:
            self._started.set()
            await self._ended.wait()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(10)
        self._loop.close()

    def play(self, script: list[dict[str, Any]]) -> None:
        """Another script from now on."""
        self._demo.play(parse_script(script))

    @property
    def base_url(self) -> str:
        """For `model.baseURL`."""
        return self._demo.base_url

    @property
    def requests(self) -> int:
        """Chat completions asked for so far."""
        return self._demo.requests

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The last request bodies."""
        return self._demo.bodies

    @property
    def headers(self) -> list[dict[str, str]]:
        """The headers of the last requests."""
        return self._demo.headers
