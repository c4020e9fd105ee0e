"""Rows with settings and verifiers of their own, as a cluster takes them."""

from __future__ import annotations

import json

import pytest

from tests.cluster.harness import own_settings
from tests.cluster.harness.runs import Runs


@pytest.mark.timeout(400)
def test_rows_bring_files_setup_limits_and_verifiers_and_the_model_hears_of_no_verdict(runs: Runs) -> None:
    run = runs.start("own-settings", own_settings.rows(cwd="/tmp/work"), **own_settings.SPEC)
    status = run.wait_complete(300)

    assert status["prompts"]["failed"] == own_settings.FAILED
    discarded = runs.bucket.rows(f"{run.prefix}/discarded.jsonl")
    statistics = json.loads(runs.bucket.read(f"{run.prefix}/statistics.json"))
    own_settings.judge(run.rows(), discarded, statistics, runs.model.bodies)
