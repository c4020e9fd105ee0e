"""Each prompt works in its own image; one that cannot be had fails its prompt alone (d01)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.harness.runs import Run, Runs, demo_prompt, true_conditions
from tests.cluster.harness.talk import calls_prompt, outputs, results

PYTHON, BUSYBOX, NOSHELL = (f"batchrun-test-{name}:dev" for name in ("python", "busybox", "noshell"))
MARKER = "/etc/batchrun-test-image"
WITHOUT_SHELL: list[tuple[str, dict[str, Any]]] = [
    ("read_file", {"path": MARKER}),
    ("write_file", {"path": "/made/here.txt", "content": "one\ntwo needles\n"}),
    ("read_file", {"path": "/made/here.txt", "offset": 2}),
    ("search_files", {"pattern": "needle", "path": "/made"}),
    ("terminal", {"command": "echo hello"}),
]


def prompt_reading(text: str) -> str:
    """A prompt whose terminal prints the image's marker."""
    return demo_prompt(text, f"cat {MARKER}")


def ended(run: Run) -> list[tuple[str, str]]:
    """Outcome and reason of every prompt, in order."""
    return [(row["outcome"], row["reason"]) for row in run.rows()]


@pytest.mark.timeout(240)
def test_three_images_in_one_batch_are_each_worked_in_by_their_own_prompt(runs: Runs) -> None:
    rows = [
        {"prompt": prompt_reading("python"), "image": PYTHON},
        {"prompt": prompt_reading("busybox, by the other name"), "docker_image": BUSYBOX},
        {"prompt": calls_prompt("no shell", *WITHOUT_SHELL), "image": NOSHELL},
        {"prompt": prompt_reading("both names: image wins"), "image": BUSYBOX, "docker_image": PYTHON},
        {"prompt": prompt_reading("the default image")},
    ]
    run = runs.start("images", rows)
    run.wait_complete(180)

    python, busybox, noshell, both, default = run.rows()
    assert ended(run) == [("completed", "")] * 5
    assert outputs(python) == outputs(default) == ["python\n"]
    assert outputs(busybox) == outputs(both) == ["busybox\n"]
    assert [row["sandbox"]["image"] for row in run.rows()] == [PYTHON, BUSYBOX, NOSHELL, BUSYBOX, PYTHON]
    assert len({row["sandbox"]["boot_id"] for row in run.rows()}) == 5

    marker, written, second_line, found, terminal = results(noshell)
    assert marker["content"] == "1|noshell"
    assert (written["created"], second_line["content"]) == (True, "2|two needles")
    assert [(match["path"], match["line"]) for match in found["matches"]] == [("/made/here.txt", 2)]
    assert "neither bash nor sh" in terminal["error"]
    assert "read_file" in terminal["error"], "it does not say what still works"
    assert noshell["tool_stats"]["terminal"] == {"count": 1, "success": 0, "failure": 1}


@pytest.mark.timeout(240)
def test_d01_images_that_cannot_be_had_fail_their_prompts_alone_and_by_name(runs: Runs) -> None:
    rows = [
        {"prompt": prompt_reading("before")},
        {"prompt": prompt_reading("nowhere"), "image": "registry.invalid/none:1"},
        {"prompt": prompt_reading("malformed"), "image": "Bad Image:Tag"},
        {"prompt": prompt_reading("after"), "image": BUSYBOX},
    ]
    run = runs.start("lost-images", rows, sandbox={"imagePullTimeoutSeconds": 3})
    status = run.wait_complete(180)

    before, nowhere, malformed, after = run.rows()
    assert (outputs(before), outputs(after)) == (["python\n"], ["busybox\n"])
    assert ended(run) == [("completed", ""), *[("failed", "ImageUnavailable")] * 2, ("completed", "")]
    assert "registry.invalid/none:1" in nowhere["message"]
    assert "pull" in nowhere["message"], "not the registry's words"
    assert "Bad Image:Tag" in malformed["message"]
    assert (nowhere["api_calls"], malformed["api_calls"]) == (0, 0)
    told = {failure["promptIndex"]: failure for failure in status["failures"]}
    assert {index: failure["reason"] for index, failure in told.items()} == dict.fromkeys((1, 2), "ImageUnavailable")
    assert "registry.invalid/none:1" in told[1]["message"]
    (job,) = run.ended_jobs()
    assert "Complete" in true_conditions(job)


def test_a_row_begins_in_its_own_folder_and_pods_carry_what_the_template_says(runs: Runs) -> None:
    rows = [
        {"prompt": demo_prompt("of its own", "pwd; cd sub 2>/dev/null || mkdir sub && cd sub", "pwd"), "cwd": "/w/new"},
        {"prompt": demo_prompt("of the image", "pwd")},
    ]
    template = {
        "labels": {"team": "blue", "batchrun.dev/run": "another"},
        "annotations": {"example.org/note": "kept as it is"},
    }
    run = runs.start("folders", rows, podTemplate=template)
    run.wait_complete(120)

    own, image = run.rows()
    assert outputs(own) == ["/w/new\n", "/w/new/sub\n"]
    assert outputs(image) == ["/\n"]
    assert {pod["metadata"]["labels"]["batchrun.dev/role"] for pod in run.pods()} == {"plan", "batch", "merge"}
    for pod in run.pods():
        assert pod["metadata"]["labels"]["team"] == "blue"
        assert pod["metadata"]["annotations"]["example.org/note"] == "kept as it is"
    assert not runs.kubectl.list("pods", "batchrun.dev/run=another")
    assert json.loads(own["extra"]) == {}


def test_the_runner_image_is_an_image_like_any_other(runs: Runs) -> None:
    operator = runs.kubectl.within("batchrun-system").get("deployments", "batchrun") or {}
    environment = operator["spec"]["template"]["spec"]["containers"][0]["env"]
    image = next(variable["value"] for variable in environment if variable["name"] == "BATCHRUN_RUNNER_IMAGE")

    run = runs.start("own", [{"prompt": demo_prompt("Say it.", "echo here")}], sandbox={"image": image})

    assert run.wait_complete()["prompts"]["completed"] == 1, run.rows()
    [row] = run.rows()
    assert any("here" in turn["value"] for turn in row["conversations"] if turn["from"] == "tool")


@pytest.mark.timeout(240)
def test_images_are_asked_for_at_the_mirror_and_rows_keep_the_name_as_written(runs: Runs) -> None:
    name = "registry.invalid/batchrun-test-busybox:dev"
    rules = [{"from": "registry.invalid", "to": "docker.io/library"}]
    run = runs.start("mirror", [{"prompt": prompt_reading("there"), "image": name}], sandbox={"imageRewrite": rules})
    run.wait_complete(180)

    (row,) = run.rows()
    assert outputs(row) == ["busybox\n"]
    assert row["sandbox"]["image"] == name


@pytest.mark.timeout(240)
def test_prompts_of_one_image_share_a_pod(runs: Runs) -> None:
    rows = [
        {"prompt": prompt_reading(f"prompt {number}"), "image": (PYTHON, BUSYBOX)[number % 2]} for number in range(6)
    ]
    run = runs.start("grouped", rows, batchSize=3)
    run.wait_complete(180)

    assert [outputs(row) for row in run.rows()] == [["python\n"], ["busybox\n"]] * 3
    assert [row["metadata"]["batch_num"] for row in run.rows()] == [0, 1] * 3
    images = [
        {item["image"] for item in pod["spec"]["containers"] if item["name"].startswith("sandbox-")}
        for pod in run.pods("batch")
    ]
    assert sorted(images, key=str) == sorted([{PYTHON}, {BUSYBOX}], key=str)
