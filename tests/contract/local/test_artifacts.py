"""`collect` in whole runs: artifacts of every end, their order in the store, attempts apart, kills in between."""

from __future__ import annotations

import hashlib
import os
import signal
from pathlib import Path
from typing import Any

from tests.cluster.harness.kubectl import wait_for
from tests.cluster.harness.model import ModelServer
from tests.cluster.harness.runs import demo_prompt
from tests.contract.local.support import Workplace

EMPTY = {"place": "", "work": "", "files": [], "has_output": False, "left_out": [], "more_left_out": 0}
MADE = "mkdir out; echo made > out/x"
MADE_DIGEST = hashlib.sha256(b"made\n").hexdigest()


def collecting(name: str, *commands: str, **keys: Any) -> dict[str, Any]:
    return {"id": name, "prompt": demo_prompt(name, *commands), "collect": {"paths": ["out"]}, **keys}


def stored(place: Workplace, row: dict[str, Any]) -> dict[str, bytes]:
    """Artifacts of a row, by their key below its place."""
    prefix = row["artifacts"]["place"]
    assert prefix.startswith("artifacts/")
    return {key.removeprefix(prefix): body for key, body in place.objects().items() if key.startswith(prefix)}


def test_results_of_every_end_are_brought_out_before_the_verifier(place: Workplace) -> None:
    secret = {"command": "test -f out/x && exit 126", "files": {"out/secret": "s"}}
    place.prompts(
        [
            collecting("done", MADE),
            collecting("turns", MADE, "ls", "ls", maxTurns=1),
            collecting("judge", MADE, verify=secret),
            collecting("setup", MADE, setup="mkdir out; exit 3"),
            collecting("nothing", "ls"),
            {**collecting("diff", "echo 1 > a"), "collect": {"paths": ["a"], "command": "cat a; echo 2"}},
            {"id": "plain", "prompt": demo_prompt("plain", MADE)},
        ]
    )

    assert place.run("--sandbox", "process").returncode == 1

    rows = {row["id"]: row for row in place.rows()}
    for name, outcome in (("done", "completed"), ("turns", "truncated"), ("judge", "failed")):
        assert rows[name]["outcome"] == outcome
        assert stored(place, rows[name]) == {"files/out/x": b"made\n"}, "and nothing that came with the verifier"
        assert rows[name]["artifacts"]["place"].startswith(f"artifacts/{rows[name]['key']}/local-")
        (file,) = rows[name]["artifacts"]["files"]
        assert file == {"path": "out/x", "size_bytes": 5, "mode": 0o644, "sha256": MADE_DIGEST}
        assert rows[name]["artifacts"]["left_out"] == []
    assert rows["nothing"]["artifacts"]["left_out"] == [{"path": "out", "why": "there is no such file or folder"}]
    assert stored(place, rows["diff"]) == {"files/a": b"1\n", "command.out": b"1\n2\n"}
    assert rows["diff"]["artifacts"]["has_output"]
    assert rows["plain"]["artifacts"] == rows["setup"]["artifacts"] == EMPTY


def test_two_attempts_of_a_prompt_do_not_mix(place: Workplace, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    (marks / "first").touch()
    verify = {"command": f"ls {marks}/second || exit 126"}
    place.prompts([collecting("twice", f"mkdir out; echo x > out/$(ls {marks})", verify=verify)])
    assert place.run("--sandbox", "process").returncode == 1
    (before,) = place.rows()
    (marks / "first").rename(marks / "second")

    assert place.run("--sandbox", "process").returncode == 0

    (after,) = place.rows()
    assert before["key"] == after["key"]
    assert list(stored(place, before)) == ["files/out/first"]
    assert list(stored(place, after)) == ["files/out/second"]


def test_a_kill_between_artifacts_and_row_leaves_no_row_and_the_next_run_does_it_again(
    place: Workplace, tmp_path: Path
) -> None:
    verify = {"command": f"[ -e {tmp_path}/judging ] || {{ touch {tmp_path}/judging; sleep 60; }}"}
    place.prompts([collecting("killed", MADE, verify=verify)])
    with place.start("--sandbox", "process") as process:
        wait_for("the verifier at work", (tmp_path / "judging").exists)
        (first,) = [key for key in place.objects() if key.startswith("artifacts/")]
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    assert not [key for key in place.objects() if key.startswith("batch_")]

    assert place.run("--sandbox", "process").returncode == 0

    (found,) = place.rows()
    assert stored(place, found) == {"files/out/x": b"made\n"}
    assert not first.startswith(found["artifacts"]["place"])


def test_artifacts_that_cannot_be_stored_end_the_run_and_no_row_says_that_they_are_there(place: Workplace) -> None:
    # The verifier of the first prompt, a process of the user's own here, puts a file where the next one's artifacts go.
    command = f"rm -rf {place.result}/artifacts; echo mine > {place.result}/artifacts"
    place.prompts([collecting("one", MADE, verify={"command": command}), collecting("two", MADE)])
    place.spec(numWorkers=1)

    done = place.run("--sandbox", "process")

    assert done.returncode in {1, 2}
    assert "Traceback" not in done.stderr
    assert f"{place.result.relative_to(place.folder)}/artifacts" in done.stderr
    assert not any(b'"id":"two"' in body for key, body in place.objects().items() if key.startswith("parts/"))


def test_a_file_in_the_way_of_artifacts_is_named_before_anything_is_paid_for(
    place: Workplace, model: ModelServer
) -> None:
    place.prompts([collecting("way", MADE)])
    place.spec(model={"name": "demo/scripted", "baseURL": model.base_url})
    place.result.mkdir(parents=True)
    (place.result / "artifacts").write_text("mine")

    done = place.run("--sandbox", "process")

    assert done.returncode == 2
    assert "artifacts is a file where a folder of this run must lie; move it away" in done.stderr
    assert model.bodies == []
