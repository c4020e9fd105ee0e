"""The task of a run: woken by events, repeated by itself, one at a time, ended with its run."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.operator.builders import nowhere
from tests.unit.operator.fake_kube import FakeKube, Json
from tests.unit.operator.world import World

from batchrun_operator import reconciler as module
from batchrun_operator.kube import Unavailable
from batchrun_operator.reconciler import Reconciler
from batchrun_operator.settings import PodSettings, Settings

SETTINGS = Settings(pods=PodSettings(runner_image="r:1"), resync_seconds=3600)
KEY = ("ns", "demo")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(module, "SETTLE_SECONDS", 0.0)
    monkeypatch.setattr(module, "CONFLICT_SECONDS", 0.0)
    monkeypatch.setattr(module, "_BACKOFF_SECONDS", (0.0,))
    return World([1, 1])


@pytest.fixture
async def reconciler(world: World) -> AsyncIterator[Reconciler]:
    made = Reconciler(world.kube, SETTINGS, resolve=nowhere)
    yield made
    await made.stop()


async def until(true: Any) -> None:
    async with asyncio.timeout(5):
        while not true():  # noqa: ASYNC110 - the fake has no events
            await asyncio.sleep(0.001)


def phases(world: World) -> str:
    return str(world.status.get("phase", ""))


async def test_an_event_makes_a_pass(world: World, reconciler: Reconciler) -> None:
    reconciler.wake(KEY)
    await until(lambda: world.kube.all("jobs"))
    assert phases(world) == "Planning"


async def test_a_whole_run_by_events_alone(world: World, reconciler: Reconciler) -> None:
    for _ in range(200):
        reconciler.wake(KEY)
        await asyncio.sleep(0.002)
        world.control_jobs()
        for pod in world.working_pods():
            world.work(pod)
        if world.finished:
            break
    assert world.condition("Complete") is not None


async def test_our_own_write_is_no_news(world: World, reconciler: Reconciler) -> None:
    reconciler.wake(KEY)
    await until(lambda: world.kube.all("events"))
    await asyncio.sleep(0.01)
    count = len(world.kube.calls)
    reconciler.wake(KEY, world.run["metadata"]["resourceVersion"])
    await asyncio.sleep(0.02)
    assert len(world.kube.calls) == count


async def test_d08_a_lost_event_is_covered_by_the_resync(world: World) -> None:
    made = Reconciler(world.kube, replace(SETTINGS, resync_seconds=0.01), resolve=nowhere)
    made.start()
    await until(lambda: world.kube.all("jobs"))
    world.control_jobs()
    for pod in world.working_pods():
        world.work(pod)
    await until(lambda: world.condition("Planned") == ("True", "Planned"))
    await made.stop()


async def test_a_deleted_run_ends_its_task(world: World, reconciler: Reconciler) -> None:
    reconciler.wake(KEY)
    await until(lambda: world.kube.all("jobs"))
    world.kube.remove("batchruns", world.run)
    reconciler.wake(KEY)
    await until(lambda: not reconciler._workers)


async def test_a_conflict_is_looked_at_again(world: World, reconciler: Reconciler) -> None:
    hits: list[int] = []
    original = world.kube.replace_run_status

    async def somebody_is_faster(run: Json) -> Json:
        if not hits:
            hits.append(1)
            world.kube.touch("batchruns", world.run)
        return await original(run)

    world.kube.replace_run_status = somebody_is_faster  # type: ignore[method-assign]
    reconciler.wake(KEY)
    await until(lambda: world.kube.all("jobs"))


async def test_an_unavailable_api_is_tried_again_and_other_runs_go_on(world: World, reconciler: Reconciler) -> None:
    failures: list[int] = []
    original = world.kube.find

    async def down(kind: str, namespace: str, *, labels: str = "", fields: str = "") -> list[Json]:
        if kind == "pods" and len(failures) < 3:
            failures.append(1)
            raise Unavailable(503, "ServiceUnavailable", "etcd")
        return await original(kind, namespace, labels=labels, fields=fields)

    world.kube.find = down  # type: ignore[method-assign]
    reconciler.wake(KEY)
    await until(lambda: world.kube.all("jobs"))
    assert len(failures) == 3


async def test_a_fault_of_ours_does_not_end_the_task(world: World, reconciler: Reconciler) -> None:
    failures: list[int] = []
    original = world.kube.find

    async def broken(kind: str, namespace: str, *, labels: str = "", fields: str = "") -> list[Json]:
        if not failures:
            failures.append(1)
            raise KeyError("oops")
        return await original(kind, namespace, labels=labels, fields=fields)

    world.kube.find = broken  # type: ignore[method-assign]
    reconciler.wake(KEY)
    await until(lambda: world.kube.all("jobs"))


async def test_d11_two_operators_make_one_set_of_jobs(world: World) -> None:
    pair = [Reconciler(world.kube, SETTINGS, resolve=nowhere) for _ in range(2)]
    for _ in range(300):
        for each in pair:
            each.wake(KEY)
        await asyncio.sleep(0.002)
        world.control_jobs()
        for pod in world.working_pods():
            world.work(pod)
        if world.finished:
            break
    for each in pair:
        await each.stop()
    assert world.condition("Complete") is not None
    assert len(world.kube.all("jobs")) == 4
    assert set(world.model_calls.values()) == {1}


async def test_d10_fifty_runs_wait_for_no_other(world: World) -> None:
    kube = FakeKube()
    for index in range(50):
        meta = {"name": f"run-{index}", "namespace": "ns", "uid": f"u-{index}", "generation": 1}
        kube.put("batchruns", {**world.run, "metadata": meta})
    made = Reconciler(kube, SETTINGS, resolve=nowhere)
    made.start()
    await until(lambda: len(kube.all("jobs")) == 50)
    await made.stop()
