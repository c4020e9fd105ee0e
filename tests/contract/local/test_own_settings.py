"""Rows with settings and verifiers of their own, as `batchrun local` takes them."""

from __future__ import annotations

import json
from typing import Any

from tests.cluster.harness import own_settings
from tests.cluster.harness.model import ModelServer
from tests.cluster.harness.runs import demo_prompt
from tests.contract.local.support import Workplace


def test_rows_bring_files_setup_limits_and_verifiers_and_the_model_hears_of_no_verdict(
    place: Workplace, model: ModelServer
) -> None:
    place.prompts(own_settings.rows())
    place.spec(**own_settings.SPEC, model={"name": "demo/scripted", "baseURL": model.base_url})

    done = place.run("--sandbox", "process")

    assert (done.returncode, done.stderr) == (1, ""), "some prompts failed"
    discarded = [json.loads(line) for line in (place.result / "discarded.jsonl").read_text().splitlines()]
    own_settings.judge(place.rows(), discarded, place.statistics(), model.bodies)
    assert "of 8 prompts" in done.stdout

    asked = len(model.bodies)
    assert place.run("--sandbox", "process").returncode == 1
    # Failed ones run again: two calls for each that came to the model, none for the one whose setup fails.
    assert len(model.bodies) - asked == 2 * (own_settings.FAILED - 1)


def test_a_row_that_asks_for_more_than_the_spec_is_refused_with_its_line_and_the_fix(place: Workplace) -> None:
    rows: list[dict[str, Any]] = [
        {"prompt": "Fine.", "maxTurns": 5},
        {"prompt": "Too much.", "maxTurns": 30},
        {"prompt": "x", "env": {"1": ""}},
    ]
    place.prompts(rows)
    place.spec(agent={"maxTurns": 5})

    done = place.run()

    assert done.returncode == 2
    assert "line 2: `maxTurns` is 30, more than 5 of agent.maxTurns; lower it or raise agent.maxTurns" in done.stderr
    assert "line 3: `env.1` is no name of an environment variable" in done.stderr
    assert "Traceback" not in done.stderr


def test_another_verifier_is_another_prompt_and_other_limits_are_not(place: Workplace, model: ModelServer) -> None:
    row = {"prompt": demo_prompt("Once.", "echo 42 > answer"), "verify": {"command": "test -f answer"}}
    place.spec(model={"name": "demo/scripted", "baseURL": model.base_url})
    for change, calls in (
        ({}, 2),
        ({"maxTurns": 3, "timeoutSeconds": 60}, 2),
        ({"verify": {"command": "test -f answer", "timeoutSeconds": 60}}, 2),
        ({"verify": {"command": "false"}}, 4),
    ):
        place.prompts([row | change])
        assert place.run("--sandbox", "process").returncode == 0
        assert len(model.bodies) == calls
    assert [(row["prompt_index"], row["reward"]) for row in place.rows()] == [(0, 0.0), (-1, 1.0)]
