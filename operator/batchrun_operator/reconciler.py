"""One asyncio task for each BatchRun: its only writer. Events wake it, a resync interval covers lost events."""

import asyncio
import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic

import structlog

from batchrun_operator.apply import apply
from batchrun_operator.gather import gather
from batchrun_operator.kube import Conflict, KubeError, NotFound
from batchrun_operator.memory import RunMemory
from batchrun_operator.ports import Api
from batchrun_operator.reconcile.decide import decide
from batchrun_operator.settings import Settings
from batchrun_operator.surroundings import Resolve, resolve

log = structlog.get_logger()

Key = tuple[str, str]
"""Namespace and name of a BatchRun."""

SETTLE_SECONDS = 0.05
"""A change seldom comes alone: wait this long for the rest before looking."""
CONFLICT_SECONDS = 0.2
REFUSED_SECONDS = 15.0
"""What was refused is not asked for again any sooner, unless something else happens."""
_BACKOFF_SECONDS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
_PASSES_AT_ONCE = 16


def utc_now() -> datetime:
    """The operator's clock."""
    return datetime.now(UTC)


@dataclass(slots=True)
class _Worker:
    """State of one run's task."""

    wake: asyncio.Event = field(default_factory=asyncio.Event)
    memory: RunMemory = field(default_factory=RunMemory)
    failures: int = 0
    """Passes that failed in a row."""


class Reconciler:
    """All runs. `wake` may be called at any time, as often as one likes."""

    def __init__(
        self, api: Api, settings: Settings, now: Callable[[], datetime] = utc_now, resolve: Resolve = resolve
    ) -> None:
        self._api = api
        self._settings = settings
        self._now = now
        self._resolve = resolve
        self._workers: dict[Key, _Worker] = {}
        self._tasks: dict[Key, asyncio.Task[None]] = {}
        self._gate = asyncio.Semaphore(_PASSES_AT_ONCE)
        self._sweeper: asyncio.Task[None] | None = None
        self.last_sweep_seconds = monotonic()
        """When all runs were listed last, by the monotonic clock."""

    def start(self) -> None:
        """Begin to list all runs from time to time, whether or not events come."""
        self._sweeper = asyncio.create_task(self._sweep(), name="sweep")

    async def stop(self) -> None:
        """Stop between two API calls; whoever comes next goes on from what is there."""
        tasks = [task for task in (self._sweeper, *self._tasks.values()) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def wake(self, key: Key, resource_version: str = "") -> None:
        """Something happened to this run. With the version of our own last write, nothing did."""
        worker = self._workers.get(key)
        if worker is None:
            worker = self._workers[key] = _Worker()
            self._tasks[key] = asyncio.create_task(self._work(key, worker), name="/".join(key))
        elif resource_version and resource_version == worker.memory.written_version:
            return
        worker.wake.set()

    async def _work(self, key: Key, worker: _Worker) -> None:
        pause: float | None = None
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(worker.wake.wait(), pause)
            await asyncio.sleep(SETTLE_SECONDS)
            worker.wake.clear()
            try:
                async with self._gate:
                    pause = await self._pass(key, worker.memory)
                worker.failures = 0
            except NotFound:
                if not worker.wake.is_set():
                    del self._workers[key], self._tasks[key]
                    return
            except Conflict:
                pause = CONFLICT_SECONDS
            except Exception as error:  # one run's trouble must not end its task
                pause = self._back_off(key, worker, error)
                await asyncio.sleep(min(pause, _BACKOFF_SECONDS[0]))

    def _back_off(self, key: Key, worker: _Worker, error: Exception) -> float:
        pause = _BACKOFF_SECONDS[min(worker.failures, len(_BACKOFF_SECONDS) - 1)] * random.uniform(0.8, 1.2)  # noqa: S311
        worker.failures += 1
        words = {"namespace": key[0], "run": key[1], "error": str(error), "retry_in_seconds": round(pause, 1)}
        if isinstance(error, KubeError):
            log.warning("pass failed", **words)
        else:
            log.error("pass failed by a fault of ours", exc_info=error, **words)
        return pause

    async def _pass(self, key: Key, memory: RunMemory) -> float | None:
        """Look, decide, act. Gives the longest time until the next look; None: until something happens."""
        raw = await self._api.get("batchruns", *key)
        now, settings = self._now(), self._settings
        observed = await gather(self._api, raw, memory, now, settings.limits, self._resolve)
        decision = decide(observed, now, settings.pods, settings.limits)
        applied = await apply(self._api, raw, decision, memory, now)
        for event in decision.events:
            log.info(event.message, namespace=key[0], run=key[1], reason=event.reason)
        if decision.settled:
            return None
        pauses = [settings.resync_seconds, decision.again_after_seconds, REFUSED_SECONDS if applied.refused else None]
        return min(pause for pause in pauses if pause is not None)

    async def _sweep(self) -> None:
        """Finds runs whose event was lost. Known runs look after themselves."""
        while True:
            try:
                for namespace in self._settings.namespaces or ("",):
                    for raw in await self._api.find("batchruns", namespace):
                        key = (raw["metadata"]["namespace"], raw["metadata"]["name"])
                        if key not in self._workers:
                            self.wake(key)
                self.last_sweep_seconds = monotonic()
            except KubeError as error:
                log.warning("runs cannot be listed", error=str(error))
            await asyncio.sleep(self._settings.resync_seconds)
