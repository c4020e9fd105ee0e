"""What the mission lets people set, as a cluster takes it: seen in the model's requests, the bucket and the status."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.harness import parameters
from tests.cluster.harness.evidence import requests_by_prompt
from tests.cluster.harness.kubectl import wait_for
from tests.cluster.harness.runs import Run, Runs


@pytest.mark.timeout(300)
def test_all_parameters_at_once_act_in_requests_and_result(runs: Runs) -> None:
    runs.kubectl.run("create", "secret", "generic", "model", f"--from-literal=api-key={parameters.API_KEY}")
    key = {"apiKeySecretRef": {"name": "model", "key": "api-key"}}
    run = runs.start("parameters", parameters.ROWS, **parameters.SPEC, model=parameters.MODEL | key)
    status = run.wait_complete(200)

    assert status["prompts"] == {
        "total": 4, "completed": 1, "truncated": 1, "discarded": 2, "failed": 0, "notRun": 0, "orphaned": 0
    }  # fmt: skip
    parameters.judge_requests(runs.model.bodies, runs.model.headers)
    keys = [key for key in runs.bucket.etags(run.prefix) if "/" not in key]
    parameters.judge_result({key: runs.bucket.read(f"{run.prefix}/{key}") for key in keys})
    (merge,) = run.pods("merge")
    printed = runs.kubectl.run("logs", merge["metadata"]["name"])
    assert "terminal" in printed, "the figures are not in the merge pod's log"
    planned = run.condition("Planned")
    assert planned
    assert "4 prompts" in planned["message"]
    assert "2 new batches" in planned["message"]


@pytest.mark.timeout(400)
def test_a_run_whose_first_twenty_prompts_are_all_discarded_suspends_itself_and_another_filter_costs_no_second_call(
    runs: Runs,
) -> None:
    rows = [{"prompt": parameters.without_reasoning(f"Prompt {number}.")} for number in range(36)]
    run = runs.start("thoughtless", rows, batchSize=6, numWorkers=2)

    def is_suspended() -> dict[str, Any] | None:
        return None if run.status.get("batches", {}).get("active") else run.condition("Suspended")

    suspended = wait_for("it suspends itself", is_suspended, 120)
    assert suspended["reason"] == "AllDiscarded"
    assert "filters.requireReasoning to false" in suspended["message"]
    assert 20 <= runs.model.requests < len(rows)

    for requires, outcome in ((False, "completed"), (True, "discarded")):
        _with_filter(run, requires_reasoning=requires)
        status = run.wait_complete(120)
        assert status["prompts"][outcome] == len(rows)
        assert requests_by_prompt(runs.model.bodies) == {row["prompt"]: 1 for row in rows}
    assert run.rows() == []


def _with_filter(run: Run, *, requires_reasoning: bool) -> None:
    """Change the filter and wait until the run is planned anew."""
    before = run.status["plan"]["id"]
    change = json.dumps({"spec": {"filters": {"requireReasoning": requires_reasoning}}})
    run.runs.kubectl.run("patch", "batchrun", run.name, "--type=merge", "-p", change)
    wait_for("it is planned again", lambda: run.status["plan"]["id"] != before, 60)
