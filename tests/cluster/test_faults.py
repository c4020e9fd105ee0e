"""Whatever dies while a run is going on: it ends Complete, with every prompt once and nothing asked twice.

A prompt that was stored before the fault costs exactly its two model calls; one that was interrupted is asked again.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.cluster.harness.evidence import (
    assert_every_prompt_once,
    assert_figures_add_up,
    prompt_of,
    requests_by_prompt,
    stored_rows,
)
from tests.cluster.harness.kubectl import Kubectl, wait_for
from tests.cluster.harness.node import Node
from tests.cluster.harness.runs import Run, Runs, demo_prompt, true_conditions

CALLS = 2
"""Of the model for each prompt here: one that runs a command, one that answers."""
KILLED = 128 + signal.SIGKILL
SYSTEM_NAMESPACE = "batchrun-system"
OPERATOR = "app.kubernetes.io/name=batchrun"


def prompts(count: int, command: str = "echo here", delay_ms: int = 700) -> list[dict[str, Any]]:
    """Prompts that take their time, so that a fault finds them at work."""
    return [
        {"id": f"p{number}", "prompt": demo_prompt(f"Prompt {number}.", command, delay_ms=delay_ms)}
        for number in range(count)
    ]


def stored(run: Run) -> set[str]:
    """The prompts whose rows are durable by now."""
    bucket = run.runs.bucket
    while True:
        keys = [key for key in bucket.etags(run.prefix) if key.startswith(("parts/", "batch_"))]
        try:
            return {prompt_of(row) for row in stored_rows({key: bucket.read(f"{run.prefix}/{key}") for key in keys})}
        except ClientError as error:
            if error.response["Error"]["Code"] != "NoSuchKey":
                raise  # a part that was put into its batch file meanwhile is no error


def wait_stored(run: Run, count: int) -> set[str]:
    """The durable prompts, once there are `count` of them."""

    def enough() -> set[str] | None:
        found = stored(run)
        return found if len(found) >= count else None

    return wait_for(f"{count} prompts are stored", enough)


def wait_at_work(run: Run, role: str = "batch") -> dict[str, Any]:
    """A pod whose runner works."""
    return wait_for(f"a {role} pod works", lambda: run.running_pod(role))


def assert_survived(run: Run, data_set: list[dict[str, Any]], stored_before: set[str]) -> dict[str, Any]:
    """The run ends Complete as if nothing had been; returns its status."""
    status = run.wait_complete(120)
    rows = run.rows()
    assert_every_prompt_once(rows, data_set)
    assert_figures_add_up(json.loads(run.runs.bucket.read(f"{run.prefix}/statistics.json")), rows)
    assert [(row["outcome"], row["reason"]) for row in rows] == [("completed", "")] * len(data_set)
    assert status["prompts"] == {
        "total": len(data_set), "completed": len(data_set), "truncated": 0, "discarded": 0, "failed": 0, "notRun": 0,
        "orphaned": 0,
    }  # fmt: skip
    asked = requests_by_prompt(run.runs.model.bodies)
    assert {prompt: asked[prompt] for prompt in stored_before} == dict.fromkeys(stored_before, CALLS)
    assert all(asked[row["prompt"]] >= CALLS for row in data_set)
    assert "parts/" not in {key[:6] for key in run.runs.bucket.etags(run.prefix)}
    return status


def test_a_runner_that_is_killed_goes_on_in_its_place_with_what_is_left(runs: Runs, node: Node) -> None:
    data_set = prompts(6)
    run = runs.start("killed", data_set, batchSize=6, numWorkers=1)
    pod = wait_at_work(run)
    done = wait_stored(run, 2)

    node.kill(pod, "runner")

    assert_survived(run, data_set, done)
    [after] = run.pods("batch")
    assert after["metadata"]["uid"] == pod["metadata"]["uid"]
    runner = next(status for status in after["status"]["containerStatuses"] if status["name"] == "runner")
    assert runner["restartCount"] == 1


def test_a_plan_that_is_deleted_from_the_store_is_made_again(runs: Runs) -> None:
    data_set = prompts(6)
    run = runs.start("no-plan", data_set, batchSize=3, numWorkers=1)
    wait_at_work(run)
    done = wait_stored(run, 1)

    [rows] = [key for key in runs.bucket.etags(run.prefix) if key.startswith("plans/") and key.endswith("/rows.jsonl")]
    runs.bucket.delete(f"{run.prefix}/{rows}")

    status = assert_survived(run, data_set, done)
    assert status["plan"]["doneBefore"] >= 3
    said = [event["message"] for event in runs.kubectl.list("events") if event.get("reason") == "PlanBroken"]
    assert any(f"{run.prefix}/{rows} is gone" in message for message in said), said


@pytest.mark.parametrize("options", [["--wait=false"], ["--grace-period=0", "--force"]], ids=["gently", "at once"])
def test_a_batch_pod_that_is_deleted_gives_way_to_another_one(runs: Runs, options: list[str]) -> None:
    data_set = prompts(6)
    run = runs.start("deleted", data_set, batchSize=6, numWorkers=1)
    pod = wait_at_work(run)
    done = wait_stored(run, 2)

    runs.kubectl.run("delete", "pod", pod["metadata"]["name"], *options)

    assert_survived(run, data_set, done)
    assert pod["metadata"]["uid"] not in {after["metadata"]["uid"] for after in run.pods("batch")}


def test_an_eviction_in_the_middle_of_a_prompt_costs_only_that_prompt(runs: Runs) -> None:
    data_set = prompts(3, command="sleep 4", delay_ms=0)
    run = runs.start("evicted", data_set, batchSize=3, numWorkers=1)
    pod = wait_at_work(run)
    done = wait_stored(run, 1)
    wait_for("the next prompt is at work", lambda: runs.model.requests > len(done) * CALLS)
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": {"gracePeriodSeconds": 30},
    }

    path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    runs.kubectl.run("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))

    assert_survived(run, data_set, done)
    asked = sorted(requests_by_prompt(runs.model.bodies).values())
    assert asked[:2] == [CALLS, CALLS], "more than one prompt was asked again"
    assert asked[2] > CALLS, "no prompt was interrupted"


def test_a_batch_job_that_is_deleted_by_hand_is_made_again(runs: Runs) -> None:
    data_set = prompts(6)
    run = runs.start("jobless", data_set, batchSize=6, numWorkers=1)
    pod = wait_at_work(run)
    done = wait_stored(run, 2)

    runs.kubectl.run("delete", "job", "-l", "batchrun.dev/run=jobless,batchrun.dev/role=batch", "--wait=false")

    assert_survived(run, data_set, done)
    assert pod["metadata"]["uid"] not in {after["metadata"]["uid"] for after in run.pods("batch")}


LAST_MOMENTS: dict[str, Callable[[Run], bool]] = {
    "its last answer comes": lambda run: True,
    "its row is stored": lambda run: len(stored(run)) == 2,
    "the batch is stored": lambda run: "batch_0.jsonl" in run.runs.bucket.etags(run.prefix),
}


@pytest.mark.alone
@pytest.mark.parametrize("moment", LAST_MOMENTS)
def test_a_sandbox_that_dies_as_the_runner_ends_holds_nothing_up(runs: Runs, node: Node, moment: str) -> None:
    """Frozen at its last model call: it would end by itself within milliseconds, and nothing would be left to kill."""
    data_set = prompts(2)
    run = runs.start("late", data_set, batchSize=2, numWorkers=1)
    pod = wait_at_work(run)
    wait_for("the last prompt is at work", lambda: runs.model.requests > CALLS)
    last = node.pid(pod, "sandbox-1")

    _wait_closely(lambda: runs.model.requests >= len(data_set) * CALLS)
    os.kill(last, signal.SIGSTOP)
    _wait_closely(lambda: LAST_MOMENTS[moment](run))
    os.kill(last, signal.SIGKILL)

    assert_survived(run, data_set, stored(run))
    assert all("Complete" in true_conditions(job) for job in run.ended_jobs())
    [after] = run.pods("batch")
    assert after["metadata"]["uid"] == pod["metadata"]["uid"]
    sandbox = next(status for status in after["status"]["containerStatuses"] if status["name"] == "sandbox-1")
    assert sandbox["lastState"]["terminated"]["exitCode"] == KILLED, "it was not the kill that ended it"
    assert (sandbox["state"]["terminated"]["exitCode"], sandbox["restartCount"]) == (0, 1)
    assert sandbox["state"]["terminated"]["message"] == "completed"


def _wait_closely(condition: Callable[[], bool]) -> None:
    """Without the pauses of wait_for: a moment is what is wanted."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "the moment did not come"


def kill_operator(kubectl: Kubectl) -> str:
    """Its pod is gone at once, with all that it had in mind; returns the pod's name."""
    system = kubectl.within(SYSTEM_NAMESPACE)
    [pod] = [pod for pod in system.list("pods", OPERATOR) if "deletionTimestamp" not in pod["metadata"]]
    name = str(pod["metadata"]["name"])
    system.run("delete", "pod", name, "--grace-period=0", "--force")
    return name


MOMENTS: dict[str, Callable[[Run], object]] = {
    "planning": lambda run: run.pods("plan"),
    "batches": lambda run: len(stored(run)) >= 2,
    "merge": lambda run: run.pods("merge"),
}


@pytest.mark.alone
@pytest.mark.parametrize("moment", MOMENTS)
def test_an_operator_that_is_killed_goes_on_from_what_it_finds(runs: Runs, moment: str) -> None:
    data_set = prompts(6, delay_ms=300)
    run = runs.start("orphaned", data_set, batchSize=3, numWorkers=1)
    wait_for(f"the run is at {moment}", lambda: MOMENTS[moment](run), 60)
    done = stored(run)

    gone = kill_operator(runs.kubectl)

    assert run.condition("Complete") is None
    status = assert_survived(run, data_set, done)
    assert status["batches"]["finished"] == 2
    assert all(count == CALLS for count in requests_by_prompt(runs.model.bodies).values()), "a batch ran twice"
    for role, count in {"plan": 1, "batch": 2, "merge": 1}.items():
        assert len(run.pods(role)) == count, f"{role} ran again"
    assert gone not in {pod["metadata"]["name"] for pod in runs.kubectl.within(SYSTEM_NAMESPACE).list("pods", OPERATOR)}
