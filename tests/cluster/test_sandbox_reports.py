"""Field reports of sandboxes, as pods meet them: c01 to c08, c11 and d01 in one run, d02 and d05 each by itself."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.cluster.harness import field_reports
from tests.cluster.harness.evidence import assert_every_prompt_once
from tests.cluster.harness.field_reports import READ_ONLY_CASES, Mode
from tests.cluster.harness.kubectl import wait_for
from tests.cluster.harness.node import Node
from tests.cluster.harness.parameters import script
from tests.cluster.harness.runs import Runs, true_conditions
from tests.cluster.harness.webhook import make_roots_read_only, mutating_webhook

IMAGES = {name: f"batchrun-test-{name}:dev" for name in field_reports.IMAGES}
GRACE_SECONDS = 30
"""Of a pod, and of the operator with a pod whose runner has ended."""


@pytest.mark.timeout(500)
def test_field_reports_hold_in_pods(runs: Runs, subtests: pytest.Subtests) -> None:
    data_set = field_reports.rows(Mode.POD, IMAGES | {"work": "/tmp"})
    run = runs.start("reports", data_set, **field_reports.SPEC, sandbox={"imagePullTimeoutSeconds": 3})
    run.wait_complete(400)

    statistics = runs.bucket.json(f"{run.prefix}/statistics.json")
    field_reports.judge(Mode.POD, run.rows(), statistics, subtests)
    jobs = run.ended_jobs()
    pods = run.pods("batch")
    assert len(jobs) == len(pods), "a Job has had more than one pod, or none"
    assert all(true_conditions(job) == {"Complete", "SuccessCriteriaMet"} for job in jobs)
    ended = [state["state"]["terminated"] for pod in pods for state in pod["status"]["containerStatuses"]]
    assert {state["exitCode"] for state in ended} == {0}


@pytest.mark.timeout(300)
def test_field_reports_hold_in_pods_with_a_read_only_root(
    runs: Runs, node_address: str, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    with mutating_webhook(runs.kubectl, node_address, tmp_path, make_roots_read_only, mark="readOnlyRootFilesystem"):
        run = runs.start("read-only", field_reports.rows(Mode.POD, IMAGES, READ_ONLY_CASES))
        run.wait_complete(200)

    statistics = runs.bucket.json(f"{run.prefix}/statistics.json")
    field_reports.judge(Mode.POD, run.rows(), statistics, subtests, READ_ONLY_CASES)


@pytest.mark.alone
@pytest.mark.timeout(300)
def test_d02_sandboxes_that_run_on_after_their_runner_are_no_failure_and_hold_nothing_up(
    runs: Runs, node: Node
) -> None:
    """Both are stopped as by SIGSTOP at the last answer: they hear neither the runner's farewell nor SIGTERM."""
    call = {"reasoning": "next", "tool_calls": [{"name": "terminal", "arguments": {"command": "echo here"}}]}
    last = {"reasoning": "all done", "content": "done", "delay_ms": 5000}
    data_set = [{"prompt": script(f"Prompt {number}.", call, last)} for number in range(2)]
    run = runs.start("stubborn", data_set, batchSize=2, promptsPerPod=2)
    pod = wait_for("a batch pod works", run.running_pod)
    wait_for("both are at their last call", lambda: runs.model.requests == 4, poll_seconds=0.02)
    for name in ("sandbox-0", "sandbox-1"):
        os.kill(node.pid(pod, name), signal.SIGSTOP)

    status = run.wait_complete(120)
    ended = time.monotonic()

    assert status["prompts"]["completed"] == 2
    assert_every_prompt_once(run.rows(), data_set)
    (left,) = run.pods("batch")
    states = {state["name"]: state["state"] for state in left["status"]["containerStatuses"]}
    assert states.pop("runner")["terminated"]["exitCode"] == 0
    assert [list(state) for state in states.values()] == [["running"]] * 2, "nothing was left to hold anything up"
    wait_for("the pod is gone", lambda: not run.pods("batch"), 3 * GRACE_SECONDS)
    assert time.monotonic() - ended < 2 * GRACE_SECONDS + 15
    assert runs.model.requests == 4, "a prompt was asked for again"
    assert run.condition("Complete")
