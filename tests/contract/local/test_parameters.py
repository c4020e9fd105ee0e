"""What the mission lets people set, as a real process takes it: seen in the model's requests and in the result."""

from __future__ import annotations

import pytest
from tests.cluster.harness import parameters
from tests.cluster.harness.evidence import requests_by_prompt
from tests.cluster.harness.model import ModelServer
from tests.cluster.harness.runs import demo_prompt
from tests.contract.local.support import Workplace, environment


def test_all_parameters_at_once_act_in_requests_and_result(place: Workplace, model: ModelServer) -> None:
    place.prompts(parameters.ROWS)
    place.spec(**parameters.SPEC, model=parameters.MODEL | {"baseURL": model.base_url})

    done = place.run("--sandbox", "process", environ=environment(OPENAI_API_KEY=parameters.API_KEY))

    assert (done.returncode, done.stderr) == (0, "")
    parameters.judge_requests(model.bodies, model.headers)
    folder = place.folder / "out" / parameters.RUN_NAME
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    parameters.judge_result(files)


def test_a_run_whose_first_twenty_prompts_are_all_discarded_stops_and_another_filter_costs_no_second_call(
    place: Workplace, model: ModelServer
) -> None:
    rows = [{"prompt": parameters.without_reasoning(f"Prompt {number}.")} for number in range(40)]
    place.prompts(rows)
    spec = {"model": {"name": "demo/scripted", "baseURL": model.base_url}, "numWorkers": 1}
    place.spec(**spec)

    stopped = place.run("--sandbox", "process")

    assert stopped.returncode == 1
    assert "AllDiscarded: the first 20 prompts" in stopped.stdout
    assert "filters.requireReasoning to false" in stopped.stdout
    assert 20 <= model.requests < len(rows)
    assert place.statistics()["outcomes"]["discarded"] == model.requests

    place.spec(**spec, filters={"requireReasoning": False})
    assert place.run("--sandbox", "process").returncode == 0
    assert requests_by_prompt(model.bodies) == {row["prompt"]: 1 for row in rows}
    assert place.statistics()["outcomes"]["completed"] == len(rows)

    place.spec(**spec)
    assert place.run("--sandbox", "process").returncode == 0
    assert model.requests == len(rows), "a filter is a merge"
    assert place.statistics()["outcomes"]["discarded"] == len(rows)
    assert place.rows() == []


@pytest.mark.parametrize("workers", [1, 3])
def test_as_many_batches_as_workers_are_worked_on_at_the_same_time(
    place: Workplace, model: ModelServer, workers: int
) -> None:
    started, running, counts = (place.folder / name for name in ("started", "running", "counts"))
    started.mkdir()
    running.mkdir()
    # Each one waits until as many have started as there are workers: with fewer at a time this would never end.
    command = (
        f"touch {started}/$$ {running}/$$; ls {running} | wc -l >> {counts}; "
        f"while [ $(ls {started} | wc -l) -lt {workers} ]; do sleep 0.02; done; rm {running}/$$"
    )
    place.prompts({"prompt": demo_prompt(f"Prompt {number}.", command)} for number in range(6))
    place.spec(model={"name": "demo/scripted", "baseURL": model.base_url}, batchSize=1, numWorkers=workers)

    done = place.run("--sandbox", "process")

    assert (done.returncode, done.stderr) == (0, "")
    assert place.statistics()["outcomes"]["completed"] == 6
    assert len(list(started.iterdir())) == 6
    assert max(map(int, counts.read_text().split())) <= workers
