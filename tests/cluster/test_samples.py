"""Several samples of each prompt, as a cluster takes them."""

from __future__ import annotations

import json

import pytest

from tests.cluster.harness import samples
from tests.cluster.harness.runs import Runs


@pytest.mark.timeout(400)
def test_verdicts_of_samples_make_pass_at_k_in_statistics_and_status(runs: Runs) -> None:
    run = runs.start(
        "samples", samples.rows(cwd="/tmp/work"), **samples.SPEC, model={"sampling": {"seed": samples.SEED}}
    )
    status = run.wait_complete(300)

    assert (status["prompts"]["total"], status["prompts"]["failed"]) == (18, samples.FAILED)
    statistics = json.loads(runs.bucket.read(f"{run.prefix}/statistics.json"))
    samples.judge(run.rows(), statistics, runs.model.bodies)
    assert status["summary"]["reward"] == {
        "count": 14,
        "mean": "0.5",
        "passAt": [{"k": 1, "value": "0.5", "prompts": 5}, {"k": 3, "value": "0.75", "prompts": 4}],
    }
    complete = run.condition("Complete")
    assert complete is not None
    passing = "pass@1 0.500 over 5 prompts, pass@3 0.750 over 4 prompts."
    assert f"18 samples of 6 prompts: 17 completed, 1 failed. {passing}" in complete["message"]
