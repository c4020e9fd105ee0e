"""`batchrun local` as a user runs it: a real process, its exit code, its words, and what it leaves in the folder."""

from __future__ import annotations

import json
import os
import pty
import random
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.harness.evidence import (
    assert_every_prompt_once,
    assert_figures_add_up,
    prompt_of,
    requests_by_prompt,
    stored_rows,
)
from tests.cluster.harness.kubectl import wait_for
from tests.cluster.harness.model import ModelServer
from tests.cluster.harness.runs import demo_prompt
from tests.contract.local.support import Workplace, environment

INTERRUPTED = 130
PROMPTS = [{"id": f"p{number}", "prompt": f"Prompt number {number}."} for number in range(6)]


def slow_prompts(count: int, delay_ms: int) -> list[dict[str, Any]]:
    """Two model calls each; the first takes its time."""
    return [
        {"id": f"p{number}", "prompt": demo_prompt(f"Slow {number}.", "echo here", delay_ms=delay_ms)}
        for number in range(count)
    ]


def of(model: ModelServer) -> dict[str, Any]:
    """The `model` field for a demo model outside of the run's process."""
    return {"name": "demo/scripted", "baseURL": model.base_url}


# ---- Exit codes ----------------------------------------------------------------------------------------------------


def test_a_run_in_which_no_prompt_failed_exits_0_and_says_where_the_results_are(place: Workplace) -> None:
    place.prompts(PROMPTS)

    done = place.run()

    assert (done.returncode, done.stderr) == (0, "")
    assert_every_prompt_once(place.rows(), PROMPTS)
    assert_figures_add_up(place.statistics(), place.rows())
    for row in place.rows():
        phases = row["seconds"]
        assert phases["total"] >= phases["model"] + phases["tools"] + phases["sandbox"] - 0.001
        assert phases["sandbox"] > 0 < phases["model"]
    assert str(Path("out/here/trajectories.jsonl")) in done.stdout
    assert "no isolation" in done.stdout
    assert "100.0 %" in done.stdout


def test_a_row_with_an_image_fails_alone_in_process_mode_and_the_run_exits_1(place: Workplace) -> None:
    rows = [*PROMPTS[:2], {"prompt": "Elsewhere.", "image": "python:3.11-slim"}]
    place.prompts(rows)

    done = place.run("--sandbox", "process")

    assert (done.returncode, done.stderr) == (1, "")
    assert_every_prompt_once(place.rows(), rows)
    assert [(row["outcome"], row["reason"]) for row in place.rows()] == [
        ("completed", ""), ("completed", ""), ("failed", "ImageUnavailable")
    ]  # fmt: skip
    assert "run with --sandbox container" in place.rows()[2]["message"]
    assert "python:3.11-slim" in place.rows()[2]["message"]
    assert_figures_add_up(place.statistics(), place.rows())


REFUSED: list[tuple[str, dict[str, Any], list[str]]] = [
    ("unknown field", {"batchsize": 3}, ["run.yaml:", "spec.batchsize", "there is no such field"]),
    ("out of bounds", {"batchSize": 0}, ["run.yaml:", "spec.batchSize"]),
    (
        "unknown distribution",
        {"distribution": "everything"},
        ["run.yaml:", "spec.distribution", "everything", "terminal_only"],
    ),
    (
        "toolset that does not work here",
        {"distribution": "terminal_web"},
        ["run.yaml:", "spec.distribution", "tools.onUnavailable"],
    ),
    ("no key", {"model": {"name": "some/model"}}, ["run.yaml:", "spec.model.baseURL", "OPENROUTER_API_KEY"]),
    (
        "data set that is not there",
        {"dataset": {"uri": "file://none.jsonl"}},
        ["none.jsonl does not exist", "correct the path"],
    ),
    ("data set without a source", {"dataset": {}}, ["run.yaml:", "spec.dataset", "exactly one source"]),
    (
        "ConfigMap that is not in the file",
        {"dataset": {"configMapKeyRef": {"name": "prompts", "key": "a"}}},
        ["run.yaml:", "spec.dataset.configMapKeyRef", "prompts"],
    ),
    ("empty data set", {"dataset": {"inline": "\n"}}, ["holds no prompt", "at least one row"]),
]


@pytest.mark.parametrize(("spec", "says"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_cannot_be_used_is_refused_with_place_and_fix_before_anything_runs(
    place: Workplace, spec: dict[str, Any], says: list[str]
) -> None:
    place.prompts(PROMPTS)
    place.spec(**spec)

    done = place.run()

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert [word for word in says if word.lower() not in done.stderr.lower()] == [], done.stderr
    assert not (place.result / "trajectories.jsonl").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [("a: [", "is not YAML"), ("kind: Secret", "exactly one document of kind BatchRun"), (None, "cannot be read")],
)
def test_a_file_that_is_no_batchrun_is_refused(place: Workplace, text: str | None, says: str) -> None:
    file = place.folder / "run.yaml"
    file.unlink()
    if text is not None:
        file.write_text(text)

    done = place.run()

    assert done.returncode == 2
    assert done.stderr.startswith("run.yaml:1")
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_invalid_rows_are_refused_with_line_reason_and_fix(place: Workplace) -> None:
    lines = [json.dumps(PROMPTS[0]), "{broken", '{"prompt": ""}', '{"prompt": 5}', '{"question": "q"}', "[1]"]
    (place.folder / "prompts.jsonl").write_text("\n".join(lines) + "\n")

    done = place.run()

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    for line in range(2, 7):
        assert f"line {line}" in done.stderr, done.stderr
    assert "onInvalidRow" in done.stderr
    assert not (place.result / "trajectories.jsonl").exists()


def test_invalid_rows_can_be_skipped_and_are_listed(place: Workplace) -> None:
    (place.folder / "prompts.jsonl").write_text(json.dumps(PROMPTS[0]) + "\n{broken\n" + json.dumps(PROMPTS[1]) + "\n")
    place.spec(dataset={"uri": "file://prompts.jsonl", "onInvalidRow": "Skip"})

    done = place.run()

    assert done.returncode == 0, done.stderr
    assert_every_prompt_once(place.rows(), PROMPTS[:2])
    [rejected] = [json.loads(line) for line in (place.result / "rejected.jsonl").read_text().splitlines()]
    assert rejected["line"] == 2


def test_an_output_that_cannot_be_written_is_named(place: Workplace) -> None:
    place.prompts(PROMPTS)
    (place.folder / "out").write_text("a file where the folder should be")

    done = place.run()

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "out/here: cannot be written" in done.stderr


def test_plain_processes_must_be_asked_for_when_the_model_is_a_real_one(place: Workplace, model: ModelServer) -> None:
    place.prompts(PROMPTS[:1])
    place.spec(model=of(model))
    nothing = place.folder / "nothing"
    nothing.mkdir()

    refused = place.run(environ=environment(PATH=str(nothing)))

    assert refused.returncode == 2
    assert "podman or docker" in refused.stderr
    assert "--sandbox process" in refused.stderr
    assert model.requests == 0
    assert place.run("--sandbox", "process").returncode == 0
    assert model.requests > 0


# ---- Going on ------------------------------------------------------------------------------------------------------


def test_a_second_process_on_the_same_folder_is_refused(place: Workplace, model: ModelServer) -> None:
    gate = place.folder / "gate"
    rows = [{"prompt": demo_prompt("Waits.", f"while [ ! -e {gate} ]; do sleep 0.05; done")}]
    place.prompts(rows)
    place.spec(model=of(model))
    with place.start("--sandbox", "process") as first:
        try:
            wait_for("the first one works", lambda: model.requests)
            second = place.run("--sandbox", "process")
        finally:
            gate.touch()
        assert first.wait(60) == 0

    assert second.returncode == 2
    assert "another batchrun works here" in second.stderr
    assert_every_prompt_once(place.rows(), rows)
    assert model.requests == 2


@pytest.mark.parametrize("seed", range(4))
def test_after_sigkill_the_same_command_asks_nothing_again_that_is_stored(
    place: Workplace, model: ModelServer, seed: int
) -> None:
    rows = slow_prompts(10, 150)
    place.prompts(rows)
    place.spec(model=of(model))
    chance = random.Random(seed)
    killed_at_request, then_seconds = chance.randrange(1, 20), chance.uniform(0, 0.15)
    with place.start("--sandbox", "process") as process:
        wait_for("the moment has come", lambda: model.requests >= killed_at_request or process.poll() is not None)
        time.sleep(then_seconds)  # not to wait for anything: the moment itself is what varies
        process.kill()
        process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL, "it had ended before"
    asked = requests_by_prompt(model.bodies)
    stored = {prompt_of(row) for row in stored_rows(place.objects())}

    again = place.run("--sandbox", "process")

    assert again.returncode == 0, again.stderr
    assert_every_prompt_once(place.rows(), rows)
    assert_figures_add_up(place.statistics(), place.rows())
    finally_asked = requests_by_prompt(model.bodies)
    assert {prompt: finally_asked[prompt] - asked[prompt] for prompt in stored} == dict.fromkeys(stored, 0)
    assert all(count >= 2 for count in finally_asked.values())
    assert not [key for key in place.objects() if key.startswith("parts/")]


def test_after_sigkill_no_command_of_the_model_lives_on(place: Workplace, model: ModelServer) -> None:
    pid_file = place.folder / "pid"
    place.prompts([{"prompt": demo_prompt("Sleeps.", f"echo $$ > {pid_file}; exec sleep 300")}])
    place.spec(model=of(model))
    with place.start("--sandbox", "process") as process:
        wait_for("the command runs", lambda: pid_file.exists() and pid_file.read_text().strip())
        pid = int(pid_file.read_text())
        process.kill()
        process.communicate(timeout=30)

    wait_for("the command has ended", lambda: not _is_alive(pid), 10)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_exits_130_and_the_same_command_goes_on(
    place: Workplace, model: ModelServer, number: signal.Signals
) -> None:
    rows = slow_prompts(20, 300)
    place.prompts(rows)
    place.spec(model=of(model))
    with place.start("--sandbox", "process") as process:
        wait_for("some are stored", lambda: len(stored_rows(_settled(place))) >= 2)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=30)
    assert (process.returncode, stderr) == (INTERRUPTED, "")
    assert f"stopped: {number.name}" in stdout
    assert "the same command goes on" in stdout
    done = {prompt_of(row) for row in stored_rows(place.objects())}
    assert 2 <= len(done) < len(rows)
    outcomes = place.statistics()["outcomes"]
    assert (outcomes["completed"], outcomes["not_run"]) == (len(done), len(rows) - len(done))
    asked = requests_by_prompt(model.bodies)

    again = place.run("--sandbox", "process")

    assert again.returncode == 0, again.stderr
    assert f"{len(done)} done" in again.stdout
    assert_every_prompt_once(place.rows(), rows)
    finally_asked = requests_by_prompt(model.bodies)
    assert all(finally_asked[prompt] == asked[prompt] for prompt in done)


def _settled(place: Workplace) -> dict[str, bytes]:
    """The objects; none where one vanished while they were read."""
    try:
        return place.objects()
    except FileNotFoundError:
        return {}


def test_a_finished_run_asks_nothing_and_changes_no_result(place: Workplace, model: ModelServer) -> None:
    place.prompts(PROMPTS)
    place.spec(model=of(model))
    assert place.run("--sandbox", "process").returncode == 0
    requests, before = model.requests, place.objects()

    again = place.run("--sandbox", "process")

    assert again.returncode == 0
    assert model.requests == requests
    after = place.objects()
    same = [key for key in before if key.startswith(("batch_", "trajectories", "ledger/"))]
    assert {key: after[key] for key in same} == {key: before[key] for key in same}


def test_a_reordered_and_extended_data_set_resumes_by_what_prompts_are(place: Workplace, model: ModelServer) -> None:
    place.prompts(PROMPTS[:4])
    place.spec(model=of(model))
    assert place.run("--sandbox", "process").returncode == 0
    asked = requests_by_prompt(model.bodies)
    changed = [PROMPTS[5], PROMPTS[3], PROMPTS[1], {"prompt": PROMPTS[1]["prompt"]}, PROMPTS[0], PROMPTS[2], PROMPTS[4]]
    place.prompts(changed)

    done = place.run("--sandbox", "process")

    assert done.returncode == 0, done.stderr
    assert "4 done" in done.stdout
    assert_every_prompt_once(place.rows(), changed)
    finally_asked = requests_by_prompt(model.bodies)
    rerun = {prompt for prompt, count in asked.items() if finally_asked[prompt] != count}
    assert rerun == {PROMPTS[1]["prompt"]}, "only the new row with an old text"
    assert set(finally_asked) == {row["prompt"] for row in PROMPTS}


def test_another_model_is_another_configuration_and_is_refused_with_what_changed(
    place: Workplace, model: ModelServer
) -> None:
    place.prompts(PROMPTS[:2])
    place.spec(model=of(model))
    assert place.run("--sandbox", "process").returncode == 0
    place.prompts(PROMPTS[:3])
    place.spec(model=of(model) | {"name": "another/model"})

    refused = place.run("--sandbox", "process")

    assert refused.returncode == 2
    assert "model" in refused.stderr
    assert "resumePolicy: Force" in refused.stderr
    assert len(place.rows()) == 2


# ---- What is shown -------------------------------------------------------------------------------------------------


def test_output_that_is_piped_is_plain_lines(place: Workplace) -> None:
    place.prompts(PROMPTS)

    done = place.run(environ=environment(TERM="xterm-256color"))

    assert "\x1b" not in done.stdout
    assert "\r" not in done.stdout
    lines = done.stdout.splitlines()
    assert "6 prompts: 0 done, 6 to run in 2 new batches" in lines
    assert sum(line.startswith("[") and ": completed" in line for line in lines) == 6
    assert {"batch 0: done", "batch 1: done"} <= set(lines)


def test_a_terminal_shows_live_bars_and_the_table(place: Workplace) -> None:
    place.prompts(slow_prompts(6, 100))
    ours, theirs = pty.openpty()
    environ = environment(TERM="xterm-256color", COLUMNS="120", LINES="40")
    with subprocess.Popen(
        place.command(), cwd=place.folder, env=environ, stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        shown = _read_all(ours, timeout_seconds=60)
        assert process.wait(30) == 0
    os.close(ours)

    assert "\x1b[" in shown, "nothing was redrawn"
    assert "prompts" in shown
    assert "batch 0" in shown
    assert "6/6" in shown
    assert "completed" in shown
    assert "trajectories.jsonl" in shown
    assert "[1/6] batch" not in shown, "plain lines among the bars"
    assert shown.count("\x1b[?25l") == shown.count("\x1b[?25h"), "the cursor is not given back"


def _read_all(terminal: int, timeout_seconds: float) -> str:
    """What a program writes to its terminal until it closes it."""
    deadline, data = time.monotonic() + timeout_seconds, b""
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 1)[0]:
            try:
                data += os.read(terminal, 65536)
            except OSError:  # how Linux says that nobody holds the other end
                break
    return data.decode()
