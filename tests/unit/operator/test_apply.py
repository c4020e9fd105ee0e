"""Acting: idempotent, on what is ours only, status first."""

import pytest
from tests.unit.operator.builders import NOW, PLAN_ID, UID, plan, raw_spec, subject
from tests.unit.operator.fake_kube import FakeKube, Json

from batchrun_api import names
from batchrun_api.status import BatchRunStatus
from batchrun_operator.apply import NotOurs, apply
from batchrun_operator.kube import Conflict
from batchrun_operator.manifests import config_map, plan_job, plan_shards
from batchrun_operator.memory import RunMemory
from batchrun_operator.reconcile.decision import (
    Action,
    Decision,
    DeleteConfigMap,
    DeleteJob,
    DeletePod,
    EnsureConfigMap,
    EnsureJob,
    Event,
    PatchPod,
    PruneConfigMaps,
)

STATUS = BatchRunStatus(phase="Planning")


@pytest.fixture
def kube() -> FakeKube:
    fake = FakeKube()
    fake.put(
        "batchruns",
        {
            "apiVersion": "batchrun.dev/v1alpha1",
            "kind": "BatchRun",
            "metadata": {"name": "demo", "namespace": "ns", "uid": UID, "generation": 1},
            "spec": raw_spec(),
        },
    )
    return fake


async def do(kube: FakeKube, *actions: Action, events: tuple[Event, ...] = (), memory: RunMemory | None = None) -> bool:
    raw = await kube.get("batchruns", "ns", "demo")
    decision = Decision(status=STATUS, actions=actions, events=events)
    return (await apply(kube, raw, decision, memory or RunMemory(uid=UID), NOW)).refused


async def test_status_comes_first_then_actions_then_events(kube: FakeKube) -> None:
    await do(kube, EnsureJob(plan_job(subject(), 1)), events=(Event("Normal", "Planning", "x"),))
    assert kube.calls == ["get batchruns", "update batchruns/status", "create jobs", "create events"]


async def test_an_unchanged_status_is_not_written(kube: FakeKube) -> None:
    await do(kube)
    kube.calls.clear()
    await do(kube)
    assert kube.calls == ["get batchruns"]


async def test_a_stale_pass_does_nothing(kube: FakeKube) -> None:
    raw = await kube.get("batchruns", "ns", "demo")
    kube.touch("batchruns", kube.objects["batchruns", "ns", "demo"])
    decision = Decision(status=STATUS, actions=(EnsureJob(plan_job(subject(), 1)),))
    with pytest.raises(Conflict):
        await apply(kube, raw, decision, RunMemory(uid=UID), NOW)
    assert kube.all("jobs") == []


async def test_everything_may_be_done_twice(kube: FakeKube) -> None:
    shards = [EnsureConfigMap(item) for item in plan_shards(subject(), plan(2))]
    actions: list[Action] = [EnsureConfigMap(config_map(subject())), *shards, EnsureJob(plan_job(subject(), 1))]
    await do(kube, *actions)
    before = {key: item["metadata"]["uid"] for key, item in kube.objects.items()}
    await do(kube, *actions)
    assert {key: item["metadata"]["uid"] for key, item in kube.objects.items()} == before
    job = kube.all("jobs")[0]["metadata"]
    gone: list[Action] = [DeleteJob(job["name"], job["uid"]), DeletePod("none", "x"), DeleteConfigMap("none")]
    await do(kube, *gone)
    await do(kube, *gone)
    assert kube.all("jobs") == []


async def test_a_job_of_somebody_else_is_left_alone_and_told(kube: FakeKube) -> None:
    manifest = plan_job(subject(), 1)
    other: Json = {"metadata": {"name": manifest["metadata"]["name"], "namespace": "ns"}}
    kube.put("jobs", other)
    memory = RunMemory(uid=UID)
    assert await do(kube, EnsureJob(manifest), memory=memory)
    assert "not ours" in memory.refusals[manifest["metadata"]["name"]].message
    assert "spec" not in kube.all("jobs")[0]


async def test_a_config_map_of_somebody_else_is_left_alone(kube: FakeKube) -> None:
    manifest = config_map(subject())
    kube.put("configmaps", {"metadata": {"name": manifest["metadata"]["name"], "namespace": "ns"}})
    with pytest.raises(NotOurs):
        await do(kube, EnsureConfigMap(manifest))
    await do(kube, DeleteConfigMap(manifest["metadata"]["name"]))
    assert len(kube.all("configmaps")) == 1


async def test_a_job_of_another_uid_is_not_deleted(kube: FakeKube) -> None:
    await do(kube, EnsureJob(plan_job(subject(), 1)))
    await do(kube, DeleteJob(kube.all("jobs")[0]["metadata"]["name"], "another"))
    assert len(kube.all("jobs")) == 1


async def test_left_over_shards_of_a_broken_attempt_are_replaced(kube: FakeKube) -> None:
    (old,), (new,) = plan_shards(subject(), plan(2)), plan_shards(subject(), plan(3))
    await do(kube, EnsureConfigMap(old))
    await do(kube, EnsureConfigMap(new))
    assert kube.all("configmaps")[0]["binaryData"] == new["binaryData"]


async def test_a_refused_job_is_remembered_until_it_is_allowed(kube: FakeKube) -> None:
    memory, name = RunMemory(uid=UID), plan_job(subject(), 1)["metadata"]["name"]
    kube.refuse["jobs"] = 'jobs "x" is forbidden: exceeded quota: small'
    assert await do(kube, EnsureJob(plan_job(subject(), 1)), memory=memory)
    assert memory.refusals[name].reason == "QuotaExceeded"
    kube.refuse["jobs"] = "admission webhook denied the request"
    assert await do(kube, EnsureJob(plan_job(subject(), 1)), memory=memory)
    assert memory.refusals[name].reason == "PodRefused"
    kube.refuse.clear()
    assert not await do(kube, EnsureJob(plan_job(subject(), 1)), memory=memory)
    assert memory.refusals == {}


async def test_config_maps_of_other_plans_are_pruned_and_those_of_others_kept(kube: FakeKube) -> None:
    await do(kube, EnsureConfigMap(config_map(subject())))
    old = config_map(subject())
    old["metadata"]["name"], old["metadata"]["labels"][names.LABEL_PLAN] = "old", "old"
    kube.put("configmaps", old)
    forged = config_map(subject())
    forged["metadata"] |= {"name": "forged", "ownerReferences": []}
    forged["metadata"]["labels"][names.LABEL_PLAN] = "old"
    kube.put("configmaps", forged)
    await do(kube, PruneConfigMaps(PLAN_ID))
    assert {item["metadata"]["name"] for item in kube.all("configmaps")} == {
        config_map(subject())["metadata"]["name"],
        "forged",
    }


def make_pod(kube: FakeKube) -> Json:
    spec = {"containers": [{"name": "runner", "image": "r"}, {"name": "sandbox-0", "image": "bad"}]}
    return kube.put("pods", {"metadata": {"name": "p", "namespace": "ns"}, "spec": spec})


async def test_a_pod_is_patched_at_the_version_that_was_seen(kube: FakeKube) -> None:
    pod = make_pod(kube)
    version = pod["metadata"]["resourceVersion"]
    await do(kube, PatchPod("p", version, "{}", (("sandbox-0", "runner-image"),)))
    assert [item["image"] for item in pod["spec"]["containers"]] == ["r", "runner-image"]
    assert pod["metadata"]["annotations"] == {names.ANNOTATION_SIGNALS: "{}"}
    with pytest.raises(Conflict):
        await do(kube, PatchPod("p", version, "{}", (("sandbox-0", "again"),)))
    await do(kube, PatchPod("gone", version, "{}"))


async def test_the_same_event_is_written_once(kube: FakeKube) -> None:
    event = Event("Warning", "Unschedulable", "no nodes")
    await do(kube, events=(event,))
    await do(kube, events=(event, Event("Normal", "Planned", "2 prompts")))
    assert sorted(item["reason"] for item in kube.all("events")) == ["Planned", "Unschedulable"]


async def test_an_event_that_cannot_be_written_stops_nothing(kube: FakeKube) -> None:
    kube.refuse["events"] = "forbidden"
    await do(kube, events=(Event("Normal", "Planned", "x"),))
