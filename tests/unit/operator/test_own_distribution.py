"""A distribution in a ConfigMap: waited for, judged before any pod, and kept as its plan has it."""

import json
from typing import Any

import pytest
from tests.unit.operator.fake_kube import Json
from tests.unit.operator.world import World

from batchrun_api.conditions import ConditionType
from batchrun_operator.memory import RunMemory

REFERENCE = {"configMapKeyRef": {"name": "ours", "key": "careful"}}
TEXT = "{terminal: 100, file: 30}"


def world_with(text: str | None, **fields: Any) -> World:
    world = World([2, 2], distribution=REFERENCE, **fields)
    if text is not None:
        put(world, {"careful": text})
    return world


def put(world: World, data: dict[str, str]) -> None:
    world.kube.put("configmaps", {"metadata": {"name": "ours", "namespace": "ns"}, "data": data})


def config_of(world: World) -> Json:
    [found] = [item for item in world.kube.all("configmaps") if "run.json" in item.get("data", {})]
    return found


def chosen(world: World) -> Any:
    return json.loads(config_of(world)["data"]["run.json"])["spec"]["distribution"]


def message(world: World, kind: ConditionType = ConditionType.PROGRESSING) -> str:
    return next(str(item["message"]) for item in world.status["conditions"] if item["type"] == kind)


async def test_pods_are_told_probabilities_and_no_reference() -> None:
    world = world_with(TEXT)
    await world.settle()

    assert world.condition("Complete") is not None
    assert chosen(world) == {"terminal": 100, "file": 30}
    assert world.run["spec"]["distribution"] == REFERENCE


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "there is no ConfigMap ours in namespace ns: make it; the run goes on by itself then"),
        ({}, "ConfigMap ours has no key careful (it has none): add it; the run goes on by itself then"),
        ({"b": "", "a": ""}, "ConfigMap ours has no key careful (it has a, b): add it"),
    ],
)
async def test_what_is_missing_is_waited_for_and_starts_by_itself(data: dict[str, str] | None, words: str) -> None:
    world = world_with(None)
    if data is not None:
        put(world, data)
    for _ in range(3):
        await world.operate()

    assert world.condition("Progressing") == ("False", "ContainerConfigError")
    assert message(world).startswith(f"planning: spec.distribution.configMapKeyRef: {words}")
    assert world.kube.all("jobs") == []

    put(world, {"careful": TEXT})
    await world.settle()
    assert world.condition("Complete") is not None


@pytest.mark.parametrize(
    ("text", "reason", "words"),
    [
        ("terminal", "InvalidSpec", "key careful of ConfigMap ours: is no mapping; write toolsets and their"),
        ("{terminal: 101}", "InvalidSpec", "ConfigMap ours: terminal: must be at most 100"),
        ("{terminal: 0}", "InvalidSpec", "ConfigMap ours: every toolset has probability 0"),
        ("{shell: 1}", "InvalidSpec", "ConfigMap ours: there is no toolset 'shell'; there are web, vision"),
        ("{terminal: 1, web: 1}", "ToolsetUnavailable", "ConfigMap ours: these toolsets do not work: web (needs"),
    ],
)
async def test_what_is_no_distribution_ends_the_run_before_any_pod_and_can_be_mended(
    text: str, reason: str, words: str
) -> None:
    world = world_with(text)
    await world.operate()

    assert world.condition("Failed") == ("True", reason)
    assert words in message(world, ConditionType.FAILED)
    assert "kubectl -n ns annotate batchrun demo batchrun.dev/retry" in message(world, ConditionType.FAILED)
    assert world.kube.all("jobs") == []

    put(world, {"careful": TEXT})
    world.run["metadata"]["annotations"] = {"batchrun.dev/retry": "1"}
    await world.settle()
    assert world.condition("Complete") is not None


async def test_unavailable_toolsets_may_be_dropped_as_anywhere() -> None:
    world = world_with("{terminal: 50, web: 50}", tools={"onUnavailable": "Drop"})
    await world.settle()

    assert world.condition("Complete") is not None


@pytest.mark.parametrize("new", ["{web: 100}", "nonsense", None])
@pytest.mark.parametrize("restarted", [True, False])
async def test_a_change_does_nothing_to_a_plan_that_was_begun(new: str | None, restarted: bool) -> None:
    world = world_with(TEXT)
    await world.operate()
    if new is None:
        world.kube.remove("configmaps", world.kube.objects["configmaps", "ns", "ours"])
    else:
        put(world, {"careful": new})
    if restarted:
        world.memory = RunMemory()
    await world.settle()

    assert world.condition("Complete") is not None
    assert chosen(world) == {"terminal": 100, "file": 30}
    assert world.plans_made == 1


@pytest.mark.parametrize("calls", range(12))
async def test_killed_at_any_call_and_changed_meanwhile_the_run_has_one_distribution(calls: int) -> None:
    world = world_with(TEXT)
    await world.operate(kill_after=calls)
    began = [item for item in world.kube.all("configmaps") if "run.json" in item.get("data", {})]
    put(world, {"careful": "{file: 7}"})
    await world.settle()

    assert world.condition("Complete") is not None
    assert chosen(world) == ({"terminal": 100, "file": 30} if began else {"file": 7})


async def test_a_change_acts_at_the_next_plan() -> None:
    world = world_with(TEXT)
    await world.settle()
    put(world, {"careful": "{file: 7}"})
    await world.operate()
    assert world.finished, "a finished run stays as it is"

    world.run["metadata"]["annotations"] = {"batchrun.dev/retry": "1"}
    await world.settle()
    assert chosen(world) == {"file": 7}


async def test_the_plans_own_configuration_is_read_once() -> None:
    world = world_with(TEXT, numWorkers=1)
    await world.operate()
    await world.operate()
    world.kube.calls.clear()
    for _ in range(5):
        await world.operate()

    looks = world.kube.calls.count("get batchruns")
    assert world.kube.calls.count("get configmaps") == looks, "one for the plan, which is not there yet"


async def test_a_config_map_of_the_plans_name_that_is_not_ours_says_nothing() -> None:
    world = world_with(TEXT)
    await world.operate()
    mine = config_of(world)
    foreign = {
        "metadata": {"name": mine["metadata"]["name"], "namespace": "ns"},
        "data": {"run.json": json.dumps({"spec": {"distribution": {"web": 100}}})},
    }
    other = world_with(TEXT)
    other.kube.put("configmaps", foreign)
    await other.operate()

    assert other.condition("Failed") is None
    assert other.memory.distribution is None
