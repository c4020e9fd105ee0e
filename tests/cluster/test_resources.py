"""What a run asks of the node and the namespace, and what it says where it does not get it (d05)."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.cluster.harness.kubectl import Kubectl, wait_for
from tests.cluster.harness.runs import Run, Runs, demo_prompt

SYSTEM_NAMESPACE = "batchrun-system"
OPERATOR = "deploy/batchrun"
TEN = [{"prompt": demo_prompt(f"prompt {number}", "echo fine")} for number in range(10)]
MODEST = {"resources": {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}}}


def quota(**hard: str) -> dict[str, Any]:
    """A ResourceQuota; `_` stands for `.` in the names."""
    amounts = {name.replace("_", "."): amount for name, amount in hard.items()}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": {"hard": amounts}}


def limit_range(**limits: dict[str, str]) -> dict[str, Any]:
    """A LimitRange for containers."""
    spec = {"limits": [{"type": "Container", **limits}]}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "team"}, "spec": spec}


def progressing(run: Run) -> dict[str, str]:
    """The condition Progressing, whatever its status; empty where there is none."""
    return next((c for c in run.status.get("conditions", []) if c["type"] == "Progressing"), {})


@pytest.mark.timeout(240)
def test_twenty_sandboxes_with_one_at_work_request_what_two_do(runs: Runs) -> None:
    twenty = [{"prompt": demo_prompt(f"prompt {number}", "echo fine")} for number in range(20)]
    many = runs.start("twenty", twenty, batchSize=20, promptsPerPod=1, sandbox=MODEST)
    two = runs.start("two", twenty[:2], batchSize=2, promptsPerPod=1, sandbox=MODEST)

    requests = []
    for run, count in ((many, 20), (two, 2)):
        assert run.wait_complete(200)["prompts"]["completed"] == count
        (pod,) = run.pods("batch")
        assert len(pod["spec"]["containers"]) == 1 + count
        requests.append(pod["spec"]["resources"]["requests"])
    # The runner's own 100m and 256Mi, and the one sandbox that works.
    assert requests == [{"cpu": "350m", "memory": "768Mi"}] * 2


@pytest.mark.timeout(240)
def test_ten_sandboxes_ask_for_what_the_ones_that_work_need(runs: Runs) -> None:
    run = runs.start("ten", TEN, batchSize=10, promptsPerPod=2, sandbox=MODEST)
    status = run.wait_complete(200)

    assert status["prompts"]["completed"] == 10
    (pod,) = run.pods("batch")
    containers = {container["name"]: container for container in pod["spec"]["containers"]}
    assert len(containers) == 11
    # The runner's own 100m and 256Mi, and two sandboxes: ten would ask for 2.6 cores, more than the node has.
    assert pod["spec"]["resources"]["requests"] == {"cpu": "600m", "memory": "1280Mi"}
    for index in range(10):
        resources = containers[f"sandbox-{index}"]["resources"]
        assert resources["limits"] == {"cpu": "1", "memory": "512Mi"}
        assert resources["requests"] == {"cpu": "1m", "memory": "1Mi"}


@pytest.mark.timeout(240)
def test_d05_a_namespace_with_a_quota_and_default_limits_runs_all_three_steps(runs: Runs) -> None:
    room = quota(requests_cpu="2", requests_memory="4Gi", limits_cpu="8", limits_memory="8Gi", pods="10")
    defaults = limit_range(
        default={"cpu": "1", "memory": "512Mi"},
        defaultRequest={"cpu": "500m", "memory": "256Mi"},
        max={"memory": "4Gi"},
    )
    runs.kubectl.apply(room, defaults)

    run = runs.start("roomy", TEN[:3])
    status = run.wait_complete(200)

    assert status["prompts"]["completed"] == 3
    assert {pod["metadata"]["labels"]["batchrun.dev/role"] for pod in run.pods()} == {"plan", "batch", "merge"}


@pytest.mark.timeout(240)
def test_d05_a_quota_on_limits_alone_finds_a_limit_in_every_pod(runs: Runs) -> None:
    runs.kubectl.apply(quota(requests_cpu="2", requests_memory="4Gi", limits_cpu="8", limits_memory="8Gi", pods="10"))

    run = runs.start("no-defaults", TEN[:2])
    status = run.wait_complete(200)

    assert status["prompts"]["completed"] == 2
    assert {pod["metadata"]["labels"]["batchrun.dev/role"] for pod in run.pods()} == {"plan", "batch", "merge"}


@pytest.mark.timeout(240)
def test_d05_a_quota_smaller_than_a_batch_pod_is_said_and_clears_when_it_goes(runs: Runs) -> None:
    runs.kubectl.apply(quota(requests_cpu="250m", requests_memory="1Gi"))
    run = runs.start("tight", TEN[:2], sandbox=MODEST)

    told = wait_for(
        "the quota is told of",
        lambda: progressing(run) if progressing(run).get("reason") == "QuotaExceeded" else None,
        90,
    )
    assert "exceeded quota: team" in told["message"]
    assert "requests.cpu=250m" in told["message"]
    assert run.condition("Failed") is None
    assert not run.pods("batch")

    runs.kubectl.run("delete", "resourcequota", "team")
    status = run.wait_complete(150)

    assert status["prompts"]["completed"] == 2
    assert "quota" not in progressing(run)["message"]


@pytest.mark.timeout(240)
def test_a_pod_that_a_limit_range_refuses_is_said_in_the_api_servers_words(runs: Runs) -> None:
    runs.kubectl.apply(limit_range(max={"memory": "128Mi"}))
    run = runs.start("small", TEN[:1])

    told = wait_for(
        "the refusal is told",
        lambda: progressing(run) if progressing(run).get("reason") == "PodRefused" else None,
        90,
    )
    assert "maximum memory usage per Container is 128Mi" in told["message"]
    assert run.condition("Failed") is None


@pytest.mark.timeout(240)
@pytest.mark.alone
def test_a_run_can_be_deleted_while_the_operator_is_away(runs: Runs, cluster: Kubectl) -> None:
    run = runs.start("orphan", [{"prompt": demo_prompt("sleeps", "sleep 300")}])
    wait_for("its batch runs", run.running_pod, 120)
    system = cluster.within(SYSTEM_NAMESPACE)
    try:
        system.run("scale", OPERATOR, "--replicas=0")
        wait_for("the operator is away", lambda: not system.list("pods", "app.kubernetes.io/name=batchrun"), 60)

        began = time.monotonic()
        runs.kubectl.run("delete", "batchrun", run.name, timeout=30)
        seconds = time.monotonic() - began

        assert seconds < 5, f"{seconds:.1f} s"
        assert run.get() == {}
        wait_for(
            "its children are gone",
            lambda: not runs.kubectl.list("jobs,pods,configmaps", f"batchrun.dev/run={run.name}"),
            90,
        )
    finally:
        system.run("scale", OPERATOR, "--replicas=1")
        system.run("rollout", "status", OPERATOR, "--timeout=60s", timeout=90)
