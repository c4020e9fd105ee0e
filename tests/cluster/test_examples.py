"""The mission's uses as a user of a cluster applies them: the files in examples/, over the bucket of the test."""

from __future__ import annotations

import pytest

from tests.cluster.harness import examples
from tests.cluster.harness.evidence import assert_every_prompt_once, assert_figures_add_up
from tests.cluster.harness.runs import Run, Runs, jsonl


def started(runs: Runs, file: str) -> Run:
    """Apply an example. A cluster sees no file of this machine, so the data set comes inline."""
    example = examples.example(file, runs.model.base_url)
    spec = example["spec"]
    ours = runs.document(example["metadata"]["name"], [])["spec"]
    spec["dataset"] = {"inline": jsonl(examples.rows(example))}
    spec["output"], spec["sandbox"] = ours["output"], ours["sandbox"] | spec.get("sandbox", {})
    runs.kubectl.apply(example)
    return Run(runs, example["metadata"]["name"], example)


@pytest.mark.timeout(420)
def test_the_uses_of_the_mission_work_as_written(runs: Runs) -> None:
    files = (examples.FIRST, examples.TRAINING, examples.EVALUATION, examples.IMAGES)
    first, training, evaluation, images = (started(runs, file) for file in files)

    for run in (first, training, evaluation):
        status = run.wait_complete(300)
        rows = examples.rows(run.document)
        assert status["prompts"]["completed"] == len(rows)
        assert_every_prompt_once(run.rows(), rows)
        statistics = runs.bucket.json(f"{run.prefix}/statistics.json")
        assert_figures_add_up(statistics, run.rows())
        assert statistics["model"] == run.document["spec"]["model"]["name"]
        assert run.prefix.endswith(run.document["spec"]["runName"])

    # Where there is no registry, both are looked for before the model is asked, and named.
    images.wait_ended(200)
    for row, given in zip(images.rows(), examples.rows(images.document), strict=True):
        assert row["sandbox"]["image"] == given["image"]
        if row["outcome"] == "failed":
            assert (row["reason"], row["api_calls"]) == ("ImageUnavailable", 0)
            assert given["image"] in row["message"]

    requests = runs.model.requests
    resume = started(runs, examples.RESUME)
    resume.replace()
    resume.wait_complete(120)
    assert runs.model.requests == requests
