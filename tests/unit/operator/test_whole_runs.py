"""Whole runs against a cluster in memory, with kills, faults and restarts at any moment."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.operator.builders import LIMITS
from tests.unit.operator.world import World

from batchrun_api import names
from batchrun_api.outcomes import Outcome


async def test_a_run_goes_from_plan_to_merge() -> None:
    world = World([3, 3, 2], numWorkers=2)
    await world.settle()
    assert world.condition("Complete") is not None
    assert world.condition("Planned") == ("True", "Planned")
    assert world.status["plan"]["recorded"] == "0-2"
    assert world.status["batchProgress"] == "3/3"
    assert world.status["progress"] == "8/8"
    assert set(world.model_calls.values()) == {1}
    assert len(world.kube.all("jobs")) == 5


async def test_an_empty_plan_goes_straight_to_the_merge() -> None:
    world = World([])
    await world.settle()
    assert world.condition("Complete") == ("True", "AllPromptsDone")


async def test_not_more_than_num_workers_batches_run_at_once() -> None:
    world = World([1] * 7, numWorkers=3)
    most = 0
    for _ in range(60):
        await world.operate()
        world.control_jobs()
        batches = [p for p in world.working_pods() if p["metadata"]["labels"][names.LABEL_ROLE] == "batch"]
        most = max(most, len(batches))
        for pod in world.working_pods()[:1]:
            world.work(pod)
    assert most == 3


async def test_a_finished_run_is_not_touched_again() -> None:
    world = World([1])
    await world.settle()
    await world.operate()
    world.kube.calls.clear()
    await world.operate()
    assert set(world.kube.calls) <= {"get batchruns", "find jobs", "find pods", "get configmaps"}


async def test_the_retry_annotation_runs_failed_prompts_again_under_new_numbers() -> None:
    world = World([4, 4], seed=3)
    await world.settle()
    failed = world.status["prompts"]["failed"]
    assert failed > 0
    world.run["metadata"]["annotations"] = {names.ANNOTATION_RETRY: "1"}
    for entries in world.stored.values():
        entries[:] = [entry for entry in entries if entry is not Outcome.FAILED]
    await world.operate()
    assert world.condition("Complete") is None
    await world.settle()
    assert world.plans_made == 2
    assert world.status["plan"]["doneBefore"] == 8 - failed


async def test_d09_a_restarted_operator_makes_no_job_twice() -> None:
    world = World([1] * 5, numWorkers=5)
    while len(world.kube.all("jobs")) < 3:
        await world.operate(kill_after=12)
        world.control_jobs()
        for pod in world.working_pods():
            if pod["metadata"]["labels"][names.LABEL_ROLE] == "plan":
                world.work(pod)
    for _ in range(3):
        await world.operate(kill_after=None)
    assert Counter(job["metadata"]["labels"][names.LABEL_ROLE] for job in world.kube.all("jobs")) == {
        "plan": 1,
        "batch": 5,
    }


async def test_a_changed_spec_waits_for_the_old_pods_and_plans_the_rest() -> None:
    world = World([2, 2], numWorkers=2)
    for _ in range(3):
        await world.operate()
        world.control_jobs()
        for pod in world.working_pods():
            world.work(pod)
    world.run["spec"]["agent"] = {"maxTurns": 3}
    world.run["metadata"]["generation"] = 2
    await world.operate()
    assert world.condition("Progressing") == ("True", "Superseded")
    old = {job["metadata"]["labels"][names.LABEL_PLAN] for job in world.kube.all("jobs")}
    assert not old
    await world.settle()
    assert world.status["observedGeneration"] == 2
    assert set(world.model_calls.values()) == {1}


async def test_config_maps_of_an_old_plan_are_removed() -> None:
    world = World([1])
    await world.settle()
    world.run["spec"]["maxSamples"] = 5
    await world.operate()
    await world.settle()
    plans = {item["metadata"]["labels"][names.LABEL_PLAN] for item in world.kube.all("configmaps")}
    assert plans == {world.status["plan"]["id"]}


@pytest.mark.parametrize("fault", ["crash", "evict", "stop_with_work_left", "delete_pod", "vanish"])
@pytest.mark.parametrize("role", ["plan", "batch", "merge"])
async def test_a_fault_of_one_pod_costs_one_attempt_at_most(fault: str, role: str) -> None:
    world = World([2, 2])
    for _ in range(100):
        await world.operate()
        world.control_jobs()
        hit = [pod for pod in world.working_pods() if pod["metadata"]["labels"][names.LABEL_ROLE] == role]
        if hit:
            getattr(world, fault)(hit[0])
            break
        for pod in world.working_pods():
            world.work(pod)
    await world.settle()
    assert world.condition("Complete") is not None
    assert set(world.model_calls.values()) == {1}
    attempts = [int(job["metadata"]["labels"][names.LABEL_ATTEMPT]) for job in world.kube.all("jobs")]
    assert max(attempts) <= 2


async def test_six_lost_attempts_end_the_run() -> None:
    world = World([1, 1])
    for _ in range(300):
        await world.operate()
        if world.finished:
            break
        world.control_jobs()
        for pod in world.working_pods():
            labels = pod["metadata"]["labels"]
            if labels[names.LABEL_ROLE] == "batch" and labels[names.LABEL_BATCH] == "1":
                world.evict(pod)
            else:
                world.work(pod)
    assert world.condition("Failed") == ("True", "TooManyAttempts")
    world.control_jobs()
    await world.operate()
    assert not [job for job in world.kube.all("jobs") if not job.get("status", {}).get("conditions")]


async def test_a_damaged_stored_plan_is_made_anew() -> None:
    world = World([2, 2, 2])
    for _ in range(4):
        await world.operate()
        world.control_jobs()
        for pod in world.working_pods():
            world.work(pod)
    for item in world.kube.all("configmaps"):
        if "binaryData" in item:
            item["binaryData"]["plan.gz"] = "AAAA"
    world.memory.belong_to("")
    await world.operate()
    assert world.condition("Planned") == ("False", "PlanBroken")
    await world.settle()
    assert world.condition("Complete") is not None
    assert set(world.model_calls.values()) == {1}


async def test_a_plan_that_is_deleted_from_the_store_is_made_anew_and_nothing_runs_twice() -> None:
    world = World([2, 2, 2], numWorkers=1)
    while not world.model_calls:
        await world.operate()
        world.control_jobs()
        for pod in world.working_pods():
            world.work(pod)
    world.lose_rows()
    await world.settle()
    assert world.condition("Complete") is not None
    assert world.condition("Planned") == ("True", "Planned")
    assert world.plans_made == 2
    assert set(world.model_calls.values()) == {1}


async def test_a_plan_that_is_deleted_each_time_ends_the_run() -> None:
    world = World([2])
    for _ in range(400):
        await world.operate()
        if world.finished:
            break
        world.control_jobs()
        for pod in world.working_pods():
            world.work(pod)
        world.lose_rows()
        world.pass_time(5)
    assert world.condition("Failed") == ("True", "PlanBroken")
    assert world.plans_made == LIMITS.max_attempts


FAULTS = ("crash", "evict", "stop_with_work_left", "delete_pod", "vanish")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("operate"), st.none() | st.integers(0, 14)),
        st.tuples(st.just("control_jobs"), st.just(0)),
        st.tuples(st.just("work"), st.integers(0, 9)),
        st.tuples(st.just("work"), st.integers(0, 9)),
        st.tuples(st.sampled_from(FAULTS), st.integers(0, 9)),
        st.tuples(st.just("delete_job"), st.integers(0, 9)),
        st.tuples(st.just("garble"), st.integers(0, 9)),
        st.tuples(st.just("lose_rows"), st.just(0)),
        st.tuples(st.just("time"), st.integers(1, 200)),
        st.tuples(st.just("workers"), st.integers(1, 5)),
        st.tuples(st.just("suspend"), st.booleans()),
        st.tuples(st.just("retry"), st.integers(0, 2)),
    ),
    max_size=120,
)


@settings(max_examples=150, deadline=None)
@given(sizes=st.lists(st.integers(1, 4), max_size=5), seed=st.integers(0, 99), steps=STEPS)
def test_whatever_happens_a_run_ends_with_each_prompt_counted_once(
    sizes: list[int], seed: int, steps: list[tuple[str, int]]
) -> None:
    asyncio.run(_live_through(World(sizes, seed, numWorkers=2), steps))


async def _live_through(world: World, steps: list[tuple[str, int]]) -> None:
    for what, which in steps:
        pods, jobs = world.working_pods(), world.kube.all("jobs")
        match what:
            case "operate":
                await world.operate(kill_after=which)
            case "control_jobs" | "lose_rows":
                getattr(world, what)()
            case "time":
                world.pass_time(which)
            case "workers":
                world.run["spec"]["numWorkers"] = which
            case "suspend":
                world.run["spec"]["suspend"] = bool(which)
            case "retry":
                world.run["metadata"]["annotations"] = {names.ANNOTATION_RETRY: str(which)}
            case "delete_job" if jobs:
                world.delete_job(jobs[which % len(jobs)])
            case "garble" if world.kube.all("pods"):
                world.garble(world.kube.all("pods")[which % len(world.kube.all("pods"))])
            case _ if pods and what in ("work", *FAULTS):
                getattr(world, what)(pods[which % len(pods)])
    world.run["spec"]["suspend"] = False
    await world.settle()
    if (world.condition("Failed") or ("", ""))[0] == "True":
        assert world.condition("Failed") in {("True", "TooManyAttempts"), ("True", "PlanBroken")}
        return
    prompts = world.status["prompts"]
    assert prompts["total"] == sum(world.sizes) == sum(prompts[key] for key in ("completed", "truncated", "failed"))
    assert prompts["completed"] + prompts["truncated"] == world.done_in_store()
