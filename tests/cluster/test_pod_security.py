"""Run pods in namespaces that enforce a Pod Security Standard (docs/decisions/0018)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.harness.kubectl import wait_for
from tests.cluster.harness.runs import SANDBOX_IMAGE, Run, Runs, demo_prompt
from tests.cluster.harness.talk import outputs

STRANGER = "batchrun-test-stranger:dev"
"""Runs as user 65532."""
_CAPABILITIES = "grep CapEff /proc/self/status"


def enforce(runs: Runs, standard: str) -> None:
    """From now on the test's namespace takes no other pods."""
    name = runs.kubectl.namespace
    labels = [f"pod-security.kubernetes.io/{key}" for key in (f"enforce={standard}", "enforce-version=latest")]
    runs.kubectl.run("label", "namespace", name, *labels)


def refusal(run: Run) -> dict[str, Any] | None:
    """The condition Progressing, once a pod was refused."""
    conditions = run.status.get("conditions", [])
    return next((c for c in conditions if (c["type"], c["reason"]) == ("Progressing", "PodRefused")), None)


@pytest.mark.timeout(240)
def test_a_namespace_that_enforces_baseline_takes_a_run_whose_images_run_as_root(runs: Runs) -> None:
    enforce(runs, "baseline")
    rows = [{"prompt": demo_prompt("root", "id -u", "touch /etc/f && chown 1:1 /etc/f && echo may")}]

    run = runs.start("baseline", rows)
    run.wait_complete(200)

    assert outputs(run.rows()[0]) == ["0\n", "may\n"]


@pytest.mark.timeout(300)
def test_a_namespace_that_enforces_restricted_takes_a_run_whose_images_have_a_user(runs: Runs) -> None:
    enforce(runs, "restricted")
    rows = [{"prompt": demo_prompt(f"prompt {number}", "id -u", _CAPABILITIES)} for number in range(2)]

    refused = runs.start("as-it-is", rows, sandbox={"image": STRANGER})
    told = wait_for("the refusal is told", lambda: refusal(refused), 90)
    run = runs.start("restricted", rows, sandbox={"image": STRANGER, "podSecurity": "Restricted"})
    run.wait_complete(200)

    assert "unrestricted capabilities" in told["message"]
    assert "sandbox.podSecurity" in told["message"]
    assert [outputs(row) for row in run.rows()] == [["65532\n", "CapEff:\t0000000000000000\n"]] * 2
    assert {pod["metadata"]["labels"]["batchrun.dev/role"] for pod in run.pods()} == {"plan", "batch", "merge"}


@pytest.mark.timeout(400)
def test_an_image_that_runs_as_root_fails_its_prompt_alone_where_that_is_not_allowed(runs: Runs) -> None:
    rows = [
        {"prompt": demo_prompt("a user", "id -u")},
        {"prompt": demo_prompt("root", "id -u"), "image": SANDBOX_IMAGE},
    ]
    restricted = {"image": STRANGER, "podSecurity": "Restricted", "imagePullTimeoutSeconds": 3}

    run = runs.start("mixed", rows, sandbox=restricted, batching="DataSetOrder")
    run.wait_complete(350)

    user, root = run.rows()
    assert outputs(user) == ["65532\n"]
    assert (root["outcome"], root["api_calls"]) == ("failed", 0)
    assert "image will run as root" in root["message"]


@pytest.mark.timeout(300)
def test_what_a_pod_template_says_is_in_every_pod_of_the_run(runs: Runs) -> None:
    kubectl = runs.kubectl
    kubectl.run("create", "serviceaccount", "team")
    registry = ["--docker-server=registry.invalid", "--docker-username=u", "--docker-password=p"]
    kubectl.run("create", "secret", "docker-registry", "registry", *registry)
    linux = {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}
    template: dict[str, Any] = {
        "labels": {"team": "blue"},
        "annotations": {"example.org/note": "kept"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [linux]}}
        },
        "priorityClassName": "system-cluster-critical",
        "imagePullSecrets": [{"name": "registry"}],
        "serviceAccountName": "team",
    }

    run = runs.start("templated", [{"prompt": demo_prompt("here", "echo here")}], podTemplate=template)
    run.wait_complete(200)

    pods = run.pods()
    assert {pod["metadata"]["labels"]["batchrun.dev/role"] for pod in pods} == {"plan", "batch", "merge"}
    for pod in pods:
        assert pod["metadata"]["labels"]["team"] == "blue"
        assert pod["metadata"]["annotations"]["example.org/note"] == "kept"
        assert template["tolerations"][0] in pod["spec"]["tolerations"]
        for field in ("nodeSelector", "affinity", "priorityClassName", "imagePullSecrets", "serviceAccountName"):
            assert pod["spec"][field] == template[field]
        assert pod["spec"]["automountServiceAccountToken"] is False
