"""What kopf is told, and what it tells us."""

import asyncio
from typing import Any

import kopf
from tests.unit.operator.fake_kube import FakeKube

from batchrun_api import names
from batchrun_operator import handlers
from batchrun_operator.handlers import configure, register
from batchrun_operator.reconciler import Reconciler
from batchrun_operator.settings import PodSettings, Settings


class Recorder(Reconciler):
    def __init__(self) -> None:
        super().__init__(FakeKube(), Settings(pods=PodSettings(runner_image="r")))
        self.woken: list[Any] = []

    def wake(self, key: tuple[str, str], resource_version: str = "") -> None:
        self.woken.append((key, resource_version))


def registered() -> tuple[kopf.OperatorRegistry, Recorder]:
    registry, recorder = kopf.OperatorRegistry(), Recorder()
    register(registry, recorder)
    return registry, recorder


def meta(fields: dict[str, Any]) -> kopf.Meta:
    body: Any = {"metadata": fields}
    return kopf.Body(body).meta


def test_d06_there_is_no_handler_that_needs_a_finalizer() -> None:
    registry, _ = registered()
    assert not list(registry._changing.get_all_handlers())
    assert not list(registry._spawning.get_all_handlers())
    assert len(list(registry._watching.get_all_handlers())) == 3


def test_events_only_wake_the_run_that_they_belong_to() -> None:
    registry, recorder = registered()
    runs, *children = list(registry._watching.get_all_handlers())
    run = meta({"namespace": "ns", "name": "demo", "resourceVersion": "5"})
    asyncio.run(runs.fn(meta=run))  # type: ignore[arg-type, call-arg]
    child = {"namespace": "ns", "name": "x", "annotations": {names.ANNOTATION_RUN: "demo"}}
    for handler in children:
        asyncio.run(handler.fn(meta=meta(child)))  # type: ignore[arg-type, call-arg]
        asyncio.run(handler.fn(meta=meta({"namespace": "ns"})))  # type: ignore[arg-type, call-arg]
    assert recorder.woken == [(("ns", "demo"), "5"), (("ns", "demo"), ""), (("ns", "demo"), "")]


def test_kopf_writes_nothing_and_asks_the_server_for_our_children_only() -> None:
    settings = kopf.OperatorSettings()
    configure(settings)
    assert settings.posting.enabled is False
    assert settings.peering.standalone is True
    assert settings.scanning.disabled is True
    assert set(settings.watching.label_selectors.values()) == {names.LABEL_RUN_UID}
    assert settings.watching.inactivity_timeout <= 70


def test_importing_the_handlers_registers_nothing() -> None:
    assert not list(kopf.get_default_registry()._watching.get_all_handlers())
    assert handlers.WATCH_TIMEOUT_SECONDS < 600
