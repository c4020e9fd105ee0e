"""Data sets from the places that only a cluster has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.harness.evidence import assert_every_prompt_once
from tests.cluster.harness.kubectl import Kubectl, wait_for
from tests.cluster.harness.node import Node
from tests.cluster.harness.runs import Runs, jsonl

ROWS = [{"id": f"p{number}", "prompt": f"Prompt {number} of a claim."} for number in range(4)]
FILE = "sets/prompts.jsonl"


@pytest.fixture
def claim(node: Node, namespace: Kubectl, cluster: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A claim on a folder of our own node that holds the data set."""
    folder = tmp_path_factory.mktemp("volume")
    file = folder / FILE
    file.parent.mkdir()
    file.write_text(jsonl(ROWS))
    folder.chmod(0o755)
    file.parent.chmod(0o755)
    file.chmod(0o644)
    volume = f"{namespace.namespace}-prompts"
    common: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "volumeMode": "Filesystem",
    }
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": common
            | {
                "capacity": {"storage": "1Gi"},
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": str(folder), "type": "Directory"},
            },
        }
    )
    namespace.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "prompts"},
            "spec": common | {"volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}},
        }
    )
    yield "prompts"
    cluster.run("delete", "persistentvolume", volume, "--wait=false")


@pytest.mark.timeout(300)
def test_a_data_set_in_a_claim_is_read_by_the_plan_pod_alone(runs: Runs, claim: str) -> None:
    # The base document's data set is inline; a null takes it away.
    source = {"inline": None, "persistentVolumeClaim": {"claimName": claim, "path": FILE}}
    run = runs.start("from-claim", [], dataset=source)
    run.wait_complete(180)

    assert_every_prompt_once(run.rows(), ROWS)
    mounting = {
        pod["metadata"]["labels"]["batchrun.dev/role"]
        for pod in run.pods()
        if any("persistentVolumeClaim" in volume for volume in pod["spec"]["volumes"])
    }
    assert mounting == {"plan"}

    missing = runs.start(
        "no-such-file", [], dataset=source | {"persistentVolumeClaim": {"claimName": claim, "path": "none.jsonl"}}
    )
    failed = wait_for("it is refused", lambda: missing.condition("Failed"), 90)
    assert failed["reason"] == "DatasetUnreadable"
    assert f"none.jsonl of PersistentVolumeClaim {claim} does not exist; correct the path" in failed["message"]
