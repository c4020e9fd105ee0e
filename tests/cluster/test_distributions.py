"""Built-in distributions in pods, and one of one's own that lies in a ConfigMap of the namespace."""

from __future__ import annotations

import json
from typing import Any

import pytest

from batchrun_api.toolsets import DISTRIBUTIONS
from tests.cluster.harness import draws
from tests.cluster.harness.images_api import ImagesAPI
from tests.cluster.harness.kubectl import Kubectl, wait_for
from tests.cluster.harness.model import ModelServer
from tests.cluster.harness.runs import Run, Runs
from tests.cluster.harness.web import Site

PROBABILITIES = {"terminal": 50, "file": 50}


def put(kubectl: Kubectl, text: str) -> None:
    kubectl.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ours"}, "data": {"evens": text}})


def progressing(run: Run) -> dict[str, Any]:
    return next((item for item in run.status.get("conditions", []) if item["type"] == "Progressing"), {})


@pytest.mark.timeout(400)
def test_a_distribution_of_a_config_map_is_waited_for_drawn_from_and_kept(runs: Runs) -> None:
    kubectl = runs.kubectl
    rows = [{"id": str(number), "prompt": f"Prompt {number}."} for number in range(12)]
    reference = {"configMapKeyRef": {"name": "ours", "key": "evens"}}
    run = runs.start("own-odds", rows, distribution=reference, filters={"requireReasoning": False})
    wait_for("the missing one is named", lambda: progressing(run).get("reason") == "ContainerConfigError")
    words = f"there is no ConfigMap ours in namespace {kubectl.namespace}: make it"
    assert words in progressing(run)["message"]

    put(kubectl, "file: 50  # tie\nterminal: 50\n")
    run.wait_complete(240)
    result = run.rows()
    assert len(result) == len(rows)
    draws.judge(result, "own-odds", PROBABILITIES, PROBABILITIES)
    statistics = json.loads(runs.bucket.read(f"{run.prefix}/statistics.json"))
    assert statistics["distribution"] == '{"file":50,"terminal":50}'

    put(kubectl, "{terminal: 50, shell: 50}")
    kubectl.run("annotate", "batchrun", "own-odds", "batchrun.dev/retry=1")
    failed = wait_for("the bad one is refused", lambda: run.condition("Failed"))
    assert failed["reason"] == "InvalidSpec"
    assert "key evens of ConfigMap ours: there is no toolset 'shell'" in failed["message"]

    put(kubectl, "{terminal: 100}")
    kubectl.run("annotate", "batchrun", "own-odds", "batchrun.dev/retry=2", "--overwrite")
    wait_for("the other one is seen", lambda: (run.condition("Failed") or {}).get("reason") == "ConfigChanged", 120)
    changed = run.condition("Failed")
    assert changed is not None
    assert 'distribution (was {"file":50,"terminal":50}, now {"terminal":100})' in changed["message"]


@pytest.mark.timeout(500)
def test_rows_of_several_distributions_have_their_draws(runs: Runs, node_address: str) -> None:
    names = ("default", "balanced", "safe", "reasoning", "mixed_tasks")
    rows = [{"id": str(number), "prompt": f"Prompt {number} of the table."} for number in range(20)]
    with Site(node_address) as site, ImagesAPI(node_address) as api, ModelServer(node_address) as second:
        tools = draws.settings(site, api, second)
        # A run's name is a part of the draw's seed, and one of Kubernetes has no underscore.
        settings = {"tools": tools, "batchSize": 10, "promptsPerPod": 5}
        started = {
            name: runs.start(name.replace("_", "-"), rows, distribution=name, runName=name, **settings)
            for name in names
        }
        for run in started.values():
            run.wait_complete(400)

    for name, run in started.items():
        result = run.rows()
        assert [row["id"] for row in result] == [row["id"] for row in rows]
        draws.judge(result, name, DISTRIBUTIONS[name], draws.WORKING)
