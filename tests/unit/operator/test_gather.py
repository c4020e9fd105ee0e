"""Looking: what is read, when, and what becomes of gaps."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from tests.unit.operator.builders import LIMITS, NOW, UID, nowhere, plan, raw_spec, subject
from tests.unit.operator.fake_kube import FakeKube, Json

from batchrun_api import frames, names
from batchrun_operator.gather import gather
from batchrun_operator.manifests import plan_shards
from batchrun_operator.memory import RunMemory
from batchrun_operator.reconcile.observed import Observed
from batchrun_operator.reconcile.timers import podless_key

RAW: Json = {"metadata": {"name": "demo", "namespace": "ns", "uid": UID, "generation": 1}, "spec": raw_spec()}


async def look(kube: FakeKube, memory: RunMemory | None = None, seconds_later: float = 0) -> Observed:
    return await gather(kube, RAW, memory or RunMemory(), NOW + timedelta(seconds=seconds_later), LIMITS, nowhere)


async def test_nothing_there_is_known_to_be_nothing() -> None:
    seen = await look(FakeKube())
    assert (seen.jobs, seen.pods, seen.plan_log) == ((), (), None)
    assert seen.shards is not None
    assert seen.shards.plan is None


async def plan_id() -> str:
    return (await look(FakeKube())).run.plan_id


async def shards_of(size: int) -> list[Json]:
    mine = replace(subject(), plan_id=await plan_id())
    return plan_shards(mine, plan(size).model_copy(update={"plan_id": mine.plan_id}))


async def test_the_plan_is_read_from_its_shards_once() -> None:
    kube, memory = FakeKube(), RunMemory()
    for shard in await shards_of(3):
        kube.put("configmaps", shard)
    for _ in range(2):
        seen = await look(kube, memory)
        assert seen.shards is not None
        assert seen.shards.plan is not None
    assert kube.calls.count("get configmaps") == 1


@pytest.mark.parametrize("damage", ["data", "count"])
async def test_damaged_shards_are_told_from_none(damage: str) -> None:
    kube = FakeKube()
    (shard,) = await shards_of(3)
    if damage == "data":
        shard["binaryData"]["plan.gz"] = "AAAA"
    else:
        shard["metadata"]["annotations"]["batchrun.dev/plan-shards"] = "2"
    kube.put("configmaps", shard)
    seen = await look(kube)
    assert seen.shards is not None
    assert seen.shards.plan is None
    assert seen.shards.damage


async def plan_pod(attempt: int, exit_code: int | None) -> Json:
    state: Json = {"running": {}} if exit_code is None else {"terminated": {"exitCode": exit_code}}
    labels = {
        names.LABEL_RUN_UID: UID,
        names.LABEL_ROLE: "plan",
        names.LABEL_PLAN: await plan_id(),
        names.LABEL_ATTEMPT: str(attempt),
    }
    return {
        "metadata": {"name": f"plan-{attempt}", "namespace": "ns", "labels": labels},
        "spec": {"containers": [{"name": "runner"}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "runner", "state": state}]},
    }


@pytest.mark.parametrize("exit_code", [None, 2, 137])
async def test_a_log_is_not_read_before_its_end(exit_code: int | None) -> None:
    kube = FakeKube()
    kube.put("pods", await plan_pod(1, exit_code))
    assert (await look(kube)).plan_log is None
    assert "get pods/log" not in kube.calls


async def test_the_newest_log_is_read_once() -> None:
    kube, memory = FakeKube(), RunMemory()
    for attempt in (1, 2):
        kube.put("pods", await plan_pod(attempt, 0))
    kube.logs["plan-2"] = "\n".join(["noise", *frames.encode(plan(2))])
    for _ in range(2):
        seen = (await look(kube, memory)).plan_log
        assert seen is not None
        assert (seen.attempt, seen.plan, seen.error) == (2, plan(2), "")
    assert kube.calls.count("get pods/log") == 1


async def test_a_log_with_a_gap_is_broken_and_not_unknown() -> None:
    kube = FakeKube()
    kube.put("pods", await plan_pod(1, 0))
    kube.logs["plan-1"] = "\n".join(frames.encode(plan(2))[:-1])
    seen = (await look(kube)).plan_log
    assert seen is not None
    assert seen.plan is None
    assert seen.error


async def test_a_pod_that_goes_while_its_log_is_read_is_unknown() -> None:
    kube = FakeKube()
    made = kube.put("pods", await plan_pod(1, 0))
    original = kube.read_log

    async def gone(*args: Any, **kwargs: Any) -> str:
        kube.remove("pods", made)
        return await original(*args, **kwargs)

    kube.read_log = gone  # type: ignore[method-assign]
    assert (await look(kube)).plan_log is None


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ('pods "x" is forbidden: exceeded quota: small, requested: cpu=1', "QuotaExceeded"),
        ('pods "x" is forbidden: violates PodSecurity "restricted"', "PodRefused"),
    ],
)
async def test_d05_the_newest_event_of_a_job_without_a_pod_is_its_refusal(words: str, reason: str) -> None:
    kube, memory = FakeKube(), RunMemory()
    labels = (await plan_pod(1, None))["metadata"]["labels"]
    job = kube.put("jobs", {"metadata": {"name": "j", "namespace": "ns", "labels": labels}, "spec": {}})
    for time, message in (("2026-01-01T00:00:00Z", "older"), ("2026-01-01T00:00:09Z", words)):
        event = {"reason": "FailedCreate", "message": message, "lastTimestamp": time}
        meta = {"name": time, "namespace": "ns"}
        kube.put("events", {"metadata": meta, "involvedObject": {"uid": job["metadata"]["uid"]}, **event})
    assert (await look(kube, memory)).refusals == {}
    late = await look(kube, memory, LIMITS.trouble_seconds)
    assert podless_key((late.jobs or ())[0]) in late.first_seen
    assert (late.refusals["j"].reason, late.refusals["j"].message) == (reason, words)


async def test_the_newest_event_of_a_pod_whose_volume_is_missing_says_why_it_does_not_start() -> None:
    kube, memory = FakeKube(), RunMemory()
    waiting = await plan_pod(1, None)
    waiting["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": "ContainerCreating"}}
    pod = kube.put("pods", waiting)
    words = 'MountVolume.SetUp failed for volume "dataset" : configmap "prompts" not found'
    event = {"reason": "FailedMount", "message": words, "lastTimestamp": "2026-01-01T00:00:00Z"}
    meta = {"name": "e", "namespace": "ns"}
    kube.put("events", {"metadata": meta, "involvedObject": {"uid": pod["metadata"]["uid"]}, **event})
    assert (await look(kube, memory)).refusals == {}
    late = await look(kube, memory, LIMITS.trouble_seconds)
    refusal = late.refusals[pod["metadata"]["name"]]
    assert (refusal.reason, refusal.message) == ("ContainerConfigError", words)


async def test_a_re_created_run_remembers_nothing_of_its_predecessor() -> None:
    memory = RunMemory(uid="old", plan_id=await plan_id(), plan=plan(1))
    seen = await look(FakeKube(), memory)
    assert seen.shards is not None
    assert seen.shards.plan is None
    assert memory.uid == UID
