"""What a machine does to a run: lost output, a full disk, damaged files, folders in the way, kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.harness.evidence import assert_every_prompt_once, assert_figures_add_up
from tests.cluster.harness.kubectl import wait_for
from tests.cluster.harness.model import ModelServer
from tests.cluster.harness.runs import demo_prompt
from tests.contract.local.support import BATCHRUN, Workplace, environment

PROMPTS = [{"id": f"p{number}", "prompt": f"Prompt number {number}."} for number in range(5)]
READER_GONE = 141


def damage(file: Path, text: str, replacement: bytes) -> None:
    """Overwrite the text where it first stands, so that the file keeps its size."""
    body = file.read_bytes()
    assert text.encode() in body
    file.write_bytes(body.replace(text.encode(), (replacement * len(text))[: len(text)], 1))


# ---- Damaged results -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("replacement", [b"\0", b"\xff", b'"'], ids=["nul", "no text", "no json"])
def test_rows_that_a_disk_damaged_are_named_left_out_and_run_again(place: Workplace, replacement: bytes) -> None:
    place.prompts(PROMPTS)
    assert place.run().returncode == 0
    file = place.result / "batch_0.jsonl"
    damage(file, "Prompt number 1", replacement)

    found = place.run()

    assert found.returncode == 1
    assert found.stderr == (
        "out/here/batch_0.jsonl: 1 row damaged and left out; the same command runs these prompts again\n"
    )
    assert [row["id"] for row in place.rows()] == ["p0", "p2", "p3", "p4"]
    assert place.statistics()["outcomes"]["not_run"] == 1
    left_out = [json.loads(line) for line in (place.result / "left_out.jsonl").read_text().splitlines()]
    assert [(item["batch"], item["line"], item["reason"]) for item in left_out] == [(0, 2, "Damaged")]

    again = place.run()

    assert (again.returncode, again.stderr) == (0, "")
    assert "4 done (4 completed), 1 to run in 1 new batch" in again.stdout
    assert "out/here/batch_0.jsonl holds 1 damaged row" in again.stdout
    assert_every_prompt_once(place.rows(), PROMPTS)
    assert_figures_add_up(place.statistics(), place.rows())
    seconds = place.statistics()["seconds"]["prompts"]
    assert seconds > 0, "rows that are whole keep what their ledger says"


def test_checkpoint_progress_and_statistics_agree_about_samples_with_unknown_tools(place: Workplace) -> None:
    calls = [{"reasoning": "r", "tool_calls": [{"name": "fly", "arguments": {}}]}, {"reasoning": "r", "content": "no"}]
    place.prompts([*PROMPTS[:2], {"id": "fly", "prompt": f"Fly.\n```demo\n{json.dumps(calls)}\n```\n"}])

    done = place.run()

    assert done.returncode == 0, done.stderr
    [line] = [line for line in done.stdout.splitlines() if "prompt 2: " in line]
    assert "discarded (UnknownTools)" in line
    outcomes = place.statistics()["outcomes"]
    assert (outcomes["completed"], outcomes["discarded"]) == (2, 1)
    assert checkpoint_outcomes(place) == {name: outcomes[name] for name in ("completed", "discarded", "failed")}
    assert [row["id"] for row in place.rows()] == ["p0", "p1"]

    place.spec(filters={"unknownTools": "Keep"})
    kept = place.run()

    assert kept.returncode == 0, kept.stderr
    assert [(row["id"], row["outcome"], row["completed"]) for row in place.rows()][2] == ("fly", "completed", True)
    assert checkpoint_outcomes(place) == {"completed": 3, "discarded": 0, "failed": 0}


def checkpoint_outcomes(place: Workplace) -> dict[str, int]:
    stats: dict[str, dict[str, int]] = json.loads((place.result / "checkpoint.json").read_text())["batch_stats"]
    return {name: sum(batch[name] for batch in stats.values()) for name in ("completed", "discarded", "failed")}


# ---- Output that is lost -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["local", "run.yaml", "--output", "out"], ["distributions"], ["--help"]])
def test_a_full_device_below_the_output_is_one_line_and_no_traceback(place: Workplace, arguments: list[str]) -> None:
    place.prompts(PROMPTS)

    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [str(BATCHRUN), *arguments], cwd=place.folder, env=environment(), stdout=full, stderr=subprocess.PIPE,
            text=True, check=False, timeout=120,
        )  # fmt: skip

    assert (done.returncode, done.stderr) == (1, "standard output cannot be written: No space left on device\n")
    if arguments[0] == "local":
        assert_every_prompt_once(place.rows(), PROMPTS)


def test_a_run_whose_reader_has_seen_enough_ends_quietly_and_can_go_on(place: Workplace, model: ModelServer) -> None:
    rows = [{"id": str(number), "prompt": demo_prompt(f"Slow {number}.", "true", delay_ms=300)} for number in range(30)]
    place.prompts(rows)
    place.spec(model={"name": "demo/scripted", "baseURL": model.base_url})
    with place.start("--sandbox", "process") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        stderr = process.stderr.read()
        assert process.wait(60) == READER_GONE
    assert stderr == ""
    assert model.requests < 2 * len(rows), "it went on although nobody looked"

    assert place.run("--sandbox", "process").returncode == 0
    assert_every_prompt_once(place.rows(), rows)


def test_closed_streams_do_no_harm(place: Workplace) -> None:
    place.prompts(PROMPTS)

    done = subprocess.run(
        ["sh", "-c", f"exec {BATCHRUN} local run.yaml --output out >&- 2>&-"],
        cwd=place.folder, env=environment(), check=False, timeout=120,
    )  # fmt: skip

    assert done.returncode == 0
    assert_every_prompt_once(place.rows(), PROMPTS)


def test_what_is_printed_to_a_closed_stream_is_not_taken_for_printed(place: Workplace) -> None:
    done = subprocess.run(
        ["sh", "-c", f"exec {BATCHRUN} distributions -o json >&-"],
        cwd=place.folder, env=environment(), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (1, "standard output cannot be written: Bad file descriptor\n")


def test_a_pipe_as_data_set_is_refused_and_not_waited_for(place: Workplace) -> None:
    os.mkfifo(place.folder / "pipe")
    place.spec(dataset={"uri": "file://pipe"})

    done = place.run("--sandbox", "process")

    assert done.returncode == 2
    assert "pipe is no regular file; save the data set as one (DatasetUnreadable)" in done.stderr


@pytest.mark.parametrize("columns", ["0", "1", "7"])
def test_a_width_that_nobody_can_read_is_not_used(place: Workplace, columns: str) -> None:
    for arguments in (["--help"], ["distributions"]):
        command = [str(BATCHRUN), *arguments]
        shown = [
            subprocess.run(command, env=environment(COLUMNS=width), capture_output=True, text=True, check=True).stdout
            for width in (columns, "80")
        ]
        assert shown[0] == shown[1]
        assert shown[0].strip()


# ---- The disk ------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(place: Workplace) -> Iterator[Path]:
    """A file system of one megabyte at `out`."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    disk = place.folder / "out"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if subprocess.run(command, capture_output=True, check=False).returncode != 0:
        pytest.skip("this machine mounts nothing")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_disk_that_fills_up_is_named_and_the_run_goes_on_when_there_is_room(
    place: Workplace, small_disk: Path, model: ModelServer
) -> None:
    long = "x" * 60_000
    rows = [{"id": f"p{number}", "prompt": demo_prompt(f"Long {number}. {long}", "true")} for number in range(12)]
    place.prompts(rows)
    place.spec(model={"name": "demo/scripted", "baseURL": model.base_url})
    filler = small_disk / "filler"
    filler.write_bytes(bytes(200_000))

    full = place.run("--sandbox", "process")

    assert full.returncode == 1
    assert full.stderr == (
        "out/here: the disk is full; make room there. What is finished is stored; the same command goes on.\n"
    )
    subprocess.run(["mount", "-o", "remount,size=50m", str(small_disk)], check=True)

    again = place.run("--sandbox", "process")

    assert (again.returncode, again.stderr) == (0, "")
    assert_every_prompt_once(place.rows(), rows)


# ---- Things in the way ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["checkpoint.json", "trajectories.jsonl", "statistics.json", "README.md", "left_out.jsonl", "discarded.jsonl",
     "rejected.jsonl", "ledger/index.jsonl"],
)  # fmt: skip
def test_a_folder_where_a_file_must_lie_is_named_before_anything_runs(place: Workplace, name: str) -> None:
    place.prompts(PROMPTS)
    (place.result / name).mkdir(parents=True)

    done = place.run()

    assert done.returncode == 2
    assert done.stderr == f"out/here/{name} is a folder where a file of this run must lie; move it away (OutputInUse)\n"


@pytest.mark.parametrize("name", ["parts", "ledger", "plans", "configs"])
def test_a_file_where_a_folder_must_lie_is_named_before_anything_runs(place: Workplace, name: str) -> None:
    place.prompts(PROMPTS)
    place.result.mkdir(parents=True)
    (place.result / name).touch()

    done = place.run()

    assert done.returncode == 2
    assert done.stderr == f"out/here/{name} is a file where a folder of this run must lie; move it away (OutputInUse)\n"


# ---- Words ---------------------------------------------------------------------------------------------------------


def test_a_suspended_run_says_so_and_runs_nothing(place: Workplace) -> None:
    place.prompts(PROMPTS)
    place.spec(suspend=True)

    done = place.run()

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("run.yaml: spec.suspend is true, so nothing was run")
    assert not place.result.exists()


def test_one_of_anything_is_no_plural(place: Workplace) -> None:
    place.prompts(PROMPTS[:1])

    done = place.run()

    assert "1 prompt: 0 done, 1 to run in 1 new batch\n" in done.stdout
    assert "batch 0: 1 prompt\n" in done.stdout
    assert "here: 1 prompt" in done.stdout
    assert "1 prompts" not in done.stdout
    assert "1 batches" not in done.stdout


def test_the_list_of_rejected_rows_is_named_with_its_path(place: Workplace) -> None:
    (place.folder / "prompts.jsonl").write_text('{"prompt": "a"}\n{"prompt": "b", "prompt": "c"}\n')

    refused = place.run()
    assert refused.returncode == 2
    assert "1 of 2 rows cannot be used" in refused.stderr
    assert "line 2: it has the key 'prompt' twice" in refused.stderr
    assert "All of them are listed in out/here/rejected.jsonl" in refused.stderr

    place.spec(dataset={"uri": "file://prompts.jsonl", "onInvalidRow": "Skip"})
    skipped = place.run()
    assert skipped.returncode == 0
    assert "1 invalid row skipped" in skipped.stdout
    assert "out/here/rejected.jsonl" in skipped.stdout


# ---- What a killed run leaves --------------------------------------------------------------------------------------


def test_the_next_start_removes_what_a_killed_run_left_and_nothing_of_a_living_one(
    place: Workplace, model: ModelServer, tmp_path: Path
) -> None:
    temporary = tmp_path / "t"
    temporary.mkdir()
    gate = tmp_path / "gate"
    place.prompts([{"prompt": demo_prompt("Waits.", f"while [ ! -e {gate} ]; do sleep 0.05; done")}])
    place.spec(model={"name": "demo/scripted", "baseURL": model.base_url})
    environ = environment(TMPDIR=str(temporary))
    with place.start("--sandbox", "process", environ=environ) as process:
        wait_for("a prompt is worked on", lambda: model.requests)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=30)
    assert left_in(temporary)
    gate.touch()

    again = place.run("--sandbox", "process", environ=environ)

    assert again.returncode == 0, again.stderr
    assert left_in(temporary) == []
    assert list((place.result / ".batchrun").rglob("tmp*/*")) == []


def left_in(folder: Path) -> list[Any]:
    return list(folder.iterdir())
