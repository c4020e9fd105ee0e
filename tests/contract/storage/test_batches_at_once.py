"""Batches that end in the same second, on stores with and without conditional writes: nothing of either is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.contract.storage.server import S3Server
from tests.unit.data.support import CarelessStore, Run, Wrapper

from batchrun_runner.storage.folder import FolderStore
from batchrun_runner.storage.s3 import S3Store
from batchrun_runner.storage.s3_client import Endpoint
from batchrun_runner.storage.store import ObjectStore

BATCH_SIZE = 3
Opener = Callable[[], ObjectStore]


class CarelessS3Store(S3Store):
    """As if the server took conditions and ignored them: it never sees any. That it does is for the probe to find."""

    def put(self, key: str, body: bytes, **_: Any) -> str:
        return super().put(key, body)

    def upload(self, path: Path, key: str, *, consume: bool = False, **_: Any) -> str:
        return super().upload(path, key, consume=consume)


class TogetherStore(Wrapper):
    """The first write of the checkpoint waits for that of all others: each of them has read what none has changed."""

    def __init__(self, inner: ObjectStore, barrier: threading.Barrier) -> None:
        super().__init__(inner)
        self._barrier: threading.Barrier | None = barrier

    def before_write(self, key: str) -> None:
        if key == "checkpoint.json" and self._barrier is not None:
            barrier, self._barrier = self._barrier, None
            barrier.wait(30)


@pytest.fixture(params=["folder", "folder without conditions", "s3", "s3 without conditions"])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opener]:
    """Opens the same empty place again and again, as the processes of different pods do."""
    kind: str = request.param
    if kind.startswith("folder"):
        folder = tmp_path / "run"
        yield (lambda: FolderStore(folder)) if kind == "folder" else (lambda: CarelessStore(FolderStore(folder)))
        return
    server: S3Server = request.getfixturevalue("s3_server")
    bucket = server.new_bucket()
    opened: list[S3Store] = []

    def open_s3() -> S3Store:
        store = (S3Store if kind == "s3" else CarelessS3Store)(bucket, "some/run", Endpoint(server.url))
        assert store.honours_conditions() == (kind == "s3")
        opened.append(store)
        return store

    yield open_s3
    for store in opened:
        store.close()


@pytest.mark.parametrize("batches", [2, 6])
def test_checkpoint_and_merge_hold_all_batches_that_end_in_the_same_second(
    opener: Opener, tmp_path: Path, batches: int
) -> None:
    prompts = [f"prompt {number}" for number in range(batches * BATCH_SIZE)]
    run = Run(opener(), tmp_path / "work", {"batchSize": BATCH_SIZE})
    outcome = run.plan(prompts)
    barrier = threading.Barrier(batches)
    ends = []
    for batch in outcome.plan.batches:
        pod = Run(TogetherStore(opener(), barrier), tmp_path, run.spec)
        ends.append(pod.work(outcome, batch, finish=False).finish)

    with ThreadPoolExecutor(batches) as pool:
        done = [future.result() for future in [pool.submit(end) for end in ends]]

    assert [totals.completed for totals in done] == [BATCH_SIZE] * batches
    checkpoint = run.json("checkpoint.json")
    assert checkpoint["completed_prompts"] == list(range(len(prompts)))
    assert set(checkpoint["batch_stats"]) == {str(number) for number in range(batches)}
    assert run.merge(outcome).result.completed == len(prompts)
    assert run.prompts() == prompts
    assert run.plan(prompts).plan.counts.done == len(prompts)
