"""The mission's uses as a user of one machine runs them: the files in examples/, at a model server of the test."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from tests.cluster.harness import examples
from tests.cluster.harness.evidence import assert_every_prompt_once, assert_figures_add_up, requests_by_prompt
from tests.cluster.harness.model import ModelServer
from tests.contract.local.support import BATCHRUN, Workplace


def prepared(place: Workplace, file: str, model: ModelServer) -> tuple[Workplace, list[dict[str, object]]]:
    """The example as run.yaml beside its data, and its rows."""
    document = examples.example(file, model.base_url)
    shutil.copytree(examples.FOLDER / "data", place.folder / "data", dirs_exist_ok=True)
    (place.folder / "run.yaml").write_text(json.dumps(document))
    return Workplace(place.folder, document["spec"].get("runName", document["metadata"]["name"])), examples.rows(
        document
    )


def test_a_first_run_and_its_resume(place: Workplace, model: ModelServer) -> None:
    first, rows = prepared(place, examples.FIRST, model)
    done = first.run("--sandbox", "process")
    assert (done.returncode, done.stderr) == (0, "")
    assert_every_prompt_once(first.rows(), rows)
    assert_figures_add_up(first.statistics(), first.rows())
    assert first.statistics()["total_batches"] == 2
    requests = model.requests
    (first.result / "batch_1.jsonl").unlink()
    again, _ = prepared(place, examples.RESUME, model)

    resumed = again.run("--sandbox", "process")

    assert (resumed.returncode, resumed.stderr) == (0, "")
    assert "10 done" in resumed.stdout
    assert_every_prompt_once(again.rows(), rows)
    asked = requests_by_prompt(model.bodies[requests:])
    assert set(asked) == {row["prompt"] for row in rows[10:]}


@pytest.mark.parametrize(
    ("file", "model_name"), [(examples.TRAINING, "anthropic/claude-sonnet-4.6"), (examples.EVALUATION, "openai/gpt-4o")]
)
def test_training_data_and_an_evaluation(place: Workplace, model: ModelServer, file: str, model_name: str) -> None:
    run, rows = prepared(place, file, model)

    done = run.run("--sandbox", "process")

    assert (done.returncode, done.stderr) == (0, "")
    assert_every_prompt_once(run.rows(), rows)
    assert_figures_add_up(run.statistics(), run.rows())
    assert {body["model"] for body in model.bodies} == {model_name}


def test_a_benchmark_with_an_image_for_each_prompt_names_images_that_a_process_cannot_give(
    place: Workplace, model: ModelServer
) -> None:
    run, rows = prepared(place, examples.IMAGES, model)

    done = run.run("--sandbox", "process")

    assert done.returncode == 1
    assert_every_prompt_once(run.rows(), rows)
    assert [(row["reason"], row["sandbox"]["image"]) for row in run.rows()] == [
        ("ImageUnavailable", "python:3.11-slim"),
        ("ImageUnavailable", "rust:1.75"),
    ]
    assert all(row["sandbox"]["image"] in row["message"] for row in run.rows())
    assert model.requests == 0, "availability is checked before the prompt"


def test_the_distributions_are_listed() -> None:
    listed = subprocess.run(
        [BATCHRUN, "distributions", "--output", "json"], capture_output=True, text=True, timeout=60, check=True
    ).stdout

    table = json.loads(listed)
    assert len(table) == 17
    assert "terminal_tasks" in listed
