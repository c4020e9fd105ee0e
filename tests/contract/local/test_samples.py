"""Several samples of each prompt, as `batchrun local` takes them: verdicts, pass@k, seeds, other numbers, kills."""

from __future__ import annotations

import json

import pytest
from tests.cluster.harness import samples
from tests.cluster.harness.evidence import assert_figures_add_up, stored_rows
from tests.cluster.harness.kubectl import wait_for
from tests.cluster.harness.model import ModelServer
from tests.contract.local.support import Workplace


def test_verdicts_of_samples_make_pass_at_k_and_another_number_of_samples_costs_only_what_is_new(
    place: Workplace, model: ModelServer
) -> None:
    asked_as = {"name": "demo/scripted", "baseURL": model.base_url, "sampling": {"seed": samples.SEED}}
    place.prompts(samples.rows())
    place.spec(**samples.SPEC, model=asked_as)
    done = place.run("--sandbox", "process")

    assert (done.returncode, done.stderr) == (1, ""), "one sample has no verdict"
    samples.judge(place.rows(), place.statistics(), model.bodies)
    assert "18 samples of 6 prompts: 0 done, 18 to run in 5 new batches" in done.stdout
    for words in ("0.5000, over 5 prompts", "0.7333, over 5 prompts", "0.7500, over 4 prompts"):
        assert words in done.stdout
    checkpoint = json.loads((place.result / "checkpoint.json").read_text())
    assert checkpoint["completed_prompts"] == [0, 1, 2, 3, 5]
    assert len(checkpoint["completed_samples"]["4"]) == 2

    # The one that failed runs again, and one more of each prompt.
    asked = len(model.bodies)
    place.spec(**samples.SPEC | {"samplesPerPrompt": 4}, model=asked_as)
    raised = place.run("--sandbox", "process")
    assert raised.returncode == 0
    assert "24 samples of 6 prompts: 17 done (17 completed), 7 to run" in raised.stdout
    assert len(model.bodies) - asked == 2 * 7
    rows = place.rows()
    assert [row["sample"] for row in rows] == [0, 1, 2, 3] * 6
    assert [(item["k"], item["prompts"]) for item in place.statistics()["pass_at_k"]["estimates"]] == [
        (k, 5) for k in range(1, 5)
    ]

    asked = len(model.bodies)
    place.spec(**samples.SPEC | {"samplesPerPrompt": 2}, model=asked_as)
    assert place.run("--sandbox", "process").returncode == 0
    assert len(model.bodies) == asked
    lowered = place.rows()
    assert [(row["prompt_index"], row["sample"]) for row in lowered[:12]] == [(i, j) for i in range(6) for j in (0, 1)]
    assert [row["prompt_index"] for row in lowered[12:]] == [-1] * 12
    statistics = place.statistics()
    assert (statistics["total_prompts"], statistics["orphaned"]) == (12, 12)
    for item in statistics["pass_at_k"]["estimates"]:
        assert item["value"] == pytest.approx(samples.by_subsets(lowered[:12], item["k"]), abs=1e-6)


def _killed_after(place: Workplace, model: ModelServer, requests: int) -> None:
    with place.start("--sandbox", "process") as process:
        wait_for("some work is done", lambda: model.requests >= requests, 60, poll_seconds=0.005)
        process.kill()
        process.communicate(timeout=30)


KILLS, PROMPTS, SAMPLES, WORKERS = 4, 8, 5, 2


@pytest.mark.timeout(200)
def test_samples_that_are_killed_again_and_again_are_each_there_once_and_paid_for_once(
    place: Workplace, model: ModelServer
) -> None:
    place.prompts([samples.judged(f"Prompt {number}.", "right", "wrong", delay_ms=30) for number in range(PROMPTS)])
    place.spec(
        samplesPerPrompt=SAMPLES,
        batchSize=3,
        numWorkers=WORKERS,
        model={"name": "demo/scripted", "baseURL": model.base_url},
    )
    kept: dict[str, str] = {}
    for _ in range(KILLS):
        _killed_after(place, model, model.requests + 9)
        for row in stored_rows(place.objects()):
            assert kept.setdefault(row["key"], row["metadata"]["timestamp"]) == row["metadata"]["timestamp"]
    assert 0 < len(kept) < PROMPTS * SAMPLES
    assert place.run("--sandbox", "process").returncode == 0

    # Two requests for each sample; what a kill cut off, at most one sample of each worker, is asked again.
    assert 2 * PROMPTS * SAMPLES <= model.requests <= 2 * PROMPTS * SAMPLES + KILLS * WORKERS * 2
    rows = place.rows()
    assert [(row["prompt_index"], row["sample"]) for row in rows] == [
        (index, sample) for index in range(PROMPTS) for sample in range(SAMPLES)
    ]
    assert {key: row["metadata"]["timestamp"] for row in rows if (key := row["key"]) in kept} == kept
    statistics = place.statistics()
    assert_figures_add_up(statistics, rows)
    found = {item["k"]: item for item in statistics["pass_at_k"]["estimates"]}
    assert sorted(found) == list(range(1, SAMPLES + 1))
    for k, item in found.items():
        assert (item["value"], item["prompts"]) == (pytest.approx(samples.by_subsets(rows, k), abs=1e-6), PROMPTS)
