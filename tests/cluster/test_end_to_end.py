"""One BatchRun from apply to its objects in the bucket, and resume by applying it again."""

from __future__ import annotations

import json
import re

import pytest

from tests.cluster.harness.kubectl import wait_for
from tests.cluster.harness.model import ModelServer
from tests.cluster.harness.runs import Run, Runs, jsonl

THIRTY = [{"id": f"p{number}", "prompt": f"Prompt number {number}."} for number in range(30)]
OBJECTS = {"trajectories.jsonl", "checkpoint.json", "statistics.json", "README.md"}


@pytest.mark.alone
def test_thirty_prompts_are_seen_done_one_by_one_and_end_complete(runs: Runs, node_address: str) -> None:
    # A model that takes its time: the kubelet reports about once a second, so faster prompts are seen in groups.
    with ModelServer(node_address, delay_ms=600) as model:
        watch = runs.kubectl.popen("get", "batchruns", "--watch", "--output-watch-events=false")
        try:
            run = Runs(runs.kubectl, runs.bucket, model).start("thirty", THIRTY)
            status = run.wait_complete(240)
        finally:
            watch.terminate()
            lines, _ = watch.communicate(timeout=10)

    done = [int(match.group(1)) for match in re.finditer(r"^thirty .*? (\d+)/30 ", lines, re.MULTILINE)]
    assert done == sorted(done), f"DONE fell:\n{lines}"
    assert len(set(done)) >= 20, f"too few values of DONE:\n{lines}"
    assert done[-1] == 30
    assert re.search(r"^NAME +PHASE +DONE +FAILED +BATCHES +MODEL +AGE$", lines, re.MULTILINE)
    assert status["prompts"] == {
        "total": 30, "completed": 30, "truncated": 0, "discarded": 0, "failed": 0, "notRun": 0, "orphaned": 0
    }  # fmt: skip
    objects = runs.bucket.etags(run.prefix)
    assert set(objects) >= OBJECTS | {f"batch_{number}.jsonl" for number in range(6)}
    assert [row["prompt_index"] for row in run.rows()] == list(range(30))


@pytest.mark.timeout(400)
def test_applying_again_pays_for_nothing_that_is_stored(runs: Runs) -> None:
    run = runs.start("again", THIRTY[:12], batchSize=4)
    run.wait_complete(180)
    requests, first = runs.model.requests, runs.bucket.read(f"{run.prefix}/trajectories.jsonl")
    assert requests > 0

    run.replace()
    run.wait_complete(120)

    assert runs.model.requests == requests
    assert runs.bucket.read(f"{run.prefix}/trajectories.jsonl") == first

    before = runs.bucket.etags(run.prefix)
    lost = [row for row in run.rows() if row["metadata"]["batch_num"] == 1]
    runs.bucket.delete(f"{run.prefix}/batch_1.jsonl")
    run.replace()
    run.wait_complete(180)

    assert runs.model.requests == requests + sum(row["api_calls"] for row in lost)
    after = runs.bucket.etags(run.prefix)
    assert {key: after[key] for key in ("batch_0.jsonl", "batch_2.jsonl")} == {
        key: before[key] for key in ("batch_0.jsonl", "batch_2.jsonl")
    }
    assert [row["prompt_index"] for row in run.rows()] == list(range(12))


def test_an_unchanged_apply_is_no_event_and_the_message_says_what_resumes(runs: Runs) -> None:
    run = runs.start("unchanged", THIRTY[:1])
    run.wait_complete()
    version = run.get()["metadata"]["resourceVersion"]

    runs.kubectl.apply(run.document)

    assert run.get()["metadata"]["resourceVersion"] == version
    complete = run.condition("Complete")
    assert complete
    assert "kubectl replace --force" in complete["message"]
    assert "batchrun.dev/retry" in complete["message"]


def test_failed_prompts_run_again_with_the_retry_annotation(runs: Runs) -> None:
    rows = [THIRTY[0], {"prompt": "lost image", "image": "registry.invalid/none:1"}]
    run = runs.start("retried", rows)
    status = run.wait_complete()
    assert (status["prompts"]["completed"], status["prompts"]["failed"]) == (1, 1)
    requests, plan_id = runs.model.requests, status["plan"]["id"]

    runs.kubectl.run("annotate", "batchrun", run.name, "batchrun.dev/retry=1")
    wait_for("it is planned again", lambda: run.status["plan"]["id"] != plan_id, 60)
    status = wait_for("the retry has ended", lambda: run.condition("Complete") and run.status, 120)

    assert (status["prompts"]["completed"], status["prompts"]["failed"]) == (1, 1)
    assert runs.model.requests == requests
    assert len(run.rows()) == 2


def test_suspend_lets_running_batches_finish_and_starts_no_more(runs: Runs) -> None:
    run = runs.start("paused", THIRTY[:6], batchSize=1, numWorkers=1)
    wait_for("the first batch runs", run.running_pod)
    runs.kubectl.run("patch", "batchrun", run.name, "--type=merge", "-p", json.dumps({"spec": {"suspend": True}}))
    wait_for("it is suspended", lambda: run.condition("Suspended") and not run.status["batches"]["active"], 60)
    requests = runs.model.requests

    runs.kubectl.run("patch", "batchrun", run.name, "--type=merge", "-p", json.dumps({"spec": {"suspend": False}}))
    run.wait_complete()

    assert runs.model.requests > requests
    assert [row["prompt_index"] for row in run.rows()] == list(range(6))


def test_deleting_a_run_takes_its_children_and_leaves_the_bucket(runs: Runs) -> None:
    run = runs.start("deleted", THIRTY[:2])
    run.wait_complete()
    objects = runs.bucket.etags(run.prefix)

    runs.kubectl.run("delete", "batchrun", run.name)

    wait_for("its children are gone", lambda: not runs.kubectl.list("jobs,pods,configmaps", "batchrun.dev/run=deleted"))
    assert runs.bucket.etags(run.prefix) == objects


@pytest.mark.parametrize(
    ("spec", "reason", "says"),
    [
        ({"dataset": {"inline": '{"prompt": "a"}\n{"prompt": 5}\n'}}, "DatasetInvalid", "line 2"),
        ({"distribution": {"terminal": 100, "terminals": 100}}, "InvalidSpec", "terminals"),
        ({"distribution": "terminal_web"}, "ToolsetUnavailable", "onUnavailable"),
        ({"output": {"s3": {"bucket": "no-such-bucket-here"}}}, "BucketMissing", "no-such-bucket-here"),
    ],
)
def test_a_run_that_cannot_start_ends_failed_with_cause_and_fix(
    runs: Runs, spec: dict[str, object], reason: str, says: str
) -> None:
    document = runs.document("refused", THIRTY[:2])
    for field, value in spec.items():
        document["spec"][field] = value
    if "output" in spec:
        access = runs.document("x", [])["spec"]["output"]["s3"]
        document["spec"]["output"]["s3"] = access | {"bucket": "no-such-bucket-here"}
    runs.kubectl.apply(document)

    failed = wait_for("it is refused", lambda: _condition(runs, "refused", "Failed"), 60)

    assert failed["reason"] == reason
    assert says in failed["message"]
    assert runs.model.requests == 0


def test_a_config_map_that_is_missing_is_said_and_the_run_starts_once_it_is_there(runs: Runs) -> None:
    document = runs.document("waits", [])
    document["spec"]["dataset"] = {"configMapKeyRef": {"name": "prompts", "key": "prompts.jsonl"}}
    runs.kubectl.apply(document)
    run = Run(runs, "waits", document)

    def said() -> dict[str, str] | None:
        conditions = run.status.get("conditions", [])
        return next((c for c in conditions if c["reason"] == "ContainerConfigError"), None)

    trouble = wait_for("the missing ConfigMap is said", said, 120)
    assert 'configmap "prompts" not found' in trouble["message"]
    assert "it starts by itself" in trouble["message"]

    runs.kubectl.run("create", "configmap", "prompts", f"--from-literal=prompts.jsonl={jsonl(THIRTY[:2])}")
    assert run.wait_complete(240)["prompts"]["completed"] == 2


def _condition(runs: Runs, name: str, kind: str) -> dict[str, str] | None:
    status = (runs.kubectl.get("batchruns", name) or {}).get("status", {})
    return next((c for c in status.get("conditions", []) if c["type"] == kind and c["status"] == "True"), None)
