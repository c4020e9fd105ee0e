"""Causes that only Kubernetes knows, in the rows that they befall (c09, c10)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.harness.evidence import requests_by_prompt
from tests.cluster.harness.kubectl import wait_for
from tests.cluster.harness.node import Node
from tests.cluster.harness.runs import Runs, demo_prompt
from tests.cluster.harness.talk import results
from tests.cluster.testbed import cluster as testbed
from tests.cluster.testbed.node import configured_serialize_pulls, uses_cgroup_v1
from tests.cluster.testbed.settings import Layout

SMALL = {"resources": {"limits": {"cpu": "1", "memory": "256Mi", "ephemeral-storage": "256Mi"}}}


@pytest.fixture(params=[False, True], ids=["pulls side by side", "pulls one by one"])
def serialized_pulls(request: pytest.FixtureRequest, node: Node) -> Iterator[bool]:
    """The kubelet's `serializeImagePulls`."""
    before = configured_serialize_pulls(Layout())
    context = testbed.up()
    if request.param != before:
        testbed.set_serialize_image_pulls(context, request.param)
    yield request.param
    if request.param != before:
        testbed.set_serialize_image_pulls(context, bool(before))


@pytest.mark.alone
def test_c10_a_sandbox_that_fills_its_disk_fails_alone_and_what_was_finished_stays(
    runs: Runs, serialized_pulls: bool
) -> None:
    rows = [{"prompt": demo_prompt(f"Prompt {number}.", "echo here")} for number in range(5)]
    rows[1] = {"prompt": demo_prompt("Fills it.", "dd if=/dev/zero of=/tmp/full bs=1M count=400; sleep 200")}
    rows[3] = {"prompt": demo_prompt("Nowhere.", "ls"), "image": "registry.invalid/none:1"}
    more = {"imagePullTimeoutSeconds": 5, "commandTimeoutSeconds": 250}
    run = runs.start("full", rows, batching="DataSetOrder", sandbox=SMALL | more)
    status = run.wait_complete(240)

    ends = [(row["outcome"], row["reason"]) for row in run.rows()]
    done = ("completed", "")
    assert ends == [done, ("failed", "DiskFull"), done, ("failed", "ImageUnavailable"), done]
    words = 'Container sandbox-1 exceeded its local ephemeral storage limit "256Mi"'
    assert f"its pod was evicted twice: {words}" in run.rows()[1]["message"]
    assert words in {failure["reason"]: failure["message"] for failure in status["failures"]}["DiskFull"]
    assert status["summary"]["reasons"] == {"DiskFull": 1, "ImageUnavailable": 1}
    asked = requests_by_prompt(runs.model.bodies)
    assert [asked[row["prompt"]] for row in rows] == [2, 2, 2, 0, 2], "something finished was asked again"
    assert "evictions" not in status["plan"] or status["plan"]["evictions"] == []


def test_c09_a_sandbox_that_is_killed_names_how_and_its_neighbours_go_on(runs: Runs, node: Node) -> None:
    rows = [
        {"prompt": demo_prompt("Killed.", "echo precious > /file", "sleep 100", "cat /file")},
        {"prompt": demo_prompt("Beside it.", "echo here")},
    ]
    run = runs.start("killed", rows, batchSize=2, sandbox=SMALL)
    pod = wait_for("the batch works", run.running_pod)
    wait_for("the command runs", lambda: runs.model.requests >= 2)
    node.kill(run.running_pod() or pod, "sandbox-0")
    run.wait_complete(120)

    killed, beside = run.rows()
    assert (killed["outcome"], killed["reason"]) == ("failed", "SandboxLost")
    assert "exit code 137" in killed["message"]
    assert [result["error"] is None for result in results(killed)] == [True, False], "it went on in a blank sandbox"
    assert beside["outcome"] == "completed"
    disrupted = run.condition("Disrupted") or {}
    assert (disrupted["reason"], "sandbox-0" in disrupted["message"]) == ("SandboxLost", True)


def test_c09_a_command_that_outgrows_the_memory_is_killed_and_the_limit_is_named(runs: Runs) -> None:
    rows = [
        {"prompt": demo_prompt("Too much.", "echo precious > /file; head -c 10G /dev/zero | tail", "cat /file")},
        {"prompt": demo_prompt("Beside it.", "echo here")},
    ]
    run = runs.start("memory", rows, batchSize=2, sandbox=SMALL)
    run.wait_complete(120)

    greedy, beside = run.rows()
    assert beside["outcome"] == "completed"
    if uses_cgroup_v1():
        first, second = results(greedy)
        assert first["exit_code"] == 137
        assert any("out of memory" in note and "256 MiB" in note for note in first["notes"])
        assert second["output"] == "precious\n"
        assert greedy["outcome"] == "completed"
    else:
        assert (greedy["outcome"], greedy["reason"]) == ("failed", "OOMKilled")
        assert "memory limit 256Mi" in greedy["message"]


@pytest.mark.timeout(240)
def test_an_image_of_a_user_that_does_not_exist_fails_its_prompt_alone_with_the_kubelets_words(runs: Runs) -> None:
    rows = [
        {"prompt": demo_prompt("Nobody.", "ls"), "image": "batchrun-test-nouser:dev"},
        {"prompt": demo_prompt("Beside it.", "echo here")},
    ]
    run = runs.start("nobody", rows, batching="DataSetOrder", sandbox={"imagePullTimeoutSeconds": 5})
    run.wait_complete(180)

    nobody, beside = run.rows()
    assert (nobody["outcome"], nobody["reason"]) == ("failed", "CreateContainerError")
    assert "batchrun-test-nouser:dev" in nobody["message"]
    assert "user" in nobody["message"]
    assert nobody["api_calls"] == 0
    assert beside["outcome"] == "completed"
