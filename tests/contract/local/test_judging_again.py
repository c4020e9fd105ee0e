"""`batchrun verify`: stored rows judged again from their artifacts, without the agent."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.harness.examples import FOLDER
from tests.cluster.harness.model import ModelServer
from tests.cluster.harness.runs import demo_prompt
from tests.contract.local.support import BATCHRUN, Workplace, environment

SAME = ("trajectories.jsonl", "statistics.json", "checkpoint.json")


def row(name: str, *commands: str, **keys: Any) -> dict[str, Any]:
    return {"id": name, "prompt": demo_prompt(name, *commands), "collect": {"paths": ["answer"]}, **keys}


def ran(place: Workplace, rows: list[dict[str, Any]]) -> int:
    place.prompts(rows)
    return place.run("--sandbox", "process").returncode


def judge_again(place: Workplace, *options: str) -> subprocess.CompletedProcess[str]:
    command = [str(BATCHRUN), "verify", "run.yaml", "--output", "out", "--sandbox", "process", *options]
    return subprocess.run(
        command, cwd=place.folder, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )


def verified(place: Workplace) -> dict[str, dict[str, Any]]:
    return {item["id"]: item for item in map(json.loads, (place.result / "verified.jsonl").read_text().splitlines())}


def figures(place: Workplace) -> dict[str, Any]:
    return dict(json.loads((place.result / "verified_statistics.json").read_text()))


def test_the_same_verifiers_say_the_same_and_others_say_otherwise_and_no_model_is_asked(
    place: Workplace, model: ModelServer
) -> None:
    place.spec(model={"name": "demo/scripted", "baseURL": model.base_url})
    is_42 = {"command": "sh check", "files": {"check": "[ $(cat answer) = 42 ]\n"}}
    rows = [
        row("right", "echo 42 > answer", verify=is_42),
        row("wrong", "echo 41 > answer", verify=is_42),
        row("number", "echo 0.25 > answer", verify={"command": "cat answer > $BATCHRUN_REWARD_FILE"}),
        row("setup", "cat base base > answer", files={"base": "4"}, setup="echo x >> log", verify={
            "command": "[ $(cat answer)$(cat log) = 44x ]"
        }),
        row("plain", "echo 42 > answer"),
    ]  # fmt: skip
    assert ran(place, rows) == 0
    asked, before = (
        len(model.bodies),
        {name: (place.result / name).read_bytes() for name in SAME if (place.result / name).exists()},
    )

    done = judge_again(place)

    assert (done.returncode, done.stderr) == (0, "")
    assert "4 of 4 rows judged, 0 with another reward, mean reward 0.5625" in done.stdout
    found = verified(place)
    assert {name: item["reward"] for name, item in found.items()} == {
        "right": 1,
        "wrong": 0,
        "number": 0.25,
        "setup": 1,
    }
    assert all(item["reward"] == item["reward_before"] and item["judged"] for item in found.values())

    other = {"command": "[ $(cat answer) = 41 ]"}
    place.prompts([item | ({"verify": other} if item["id"] in {"right", "wrong"} else {}) for item in rows])
    done = judge_again(place)

    assert (done.returncode, done.stderr) == (0, "")
    found = verified(place)
    assert {name: (item["reward_before"], item["reward"]) for name, item in found.items()} == {
        "right": (1.0, 0.0), "wrong": (0.0, 1.0), "number": (0.25, 0.25), "setup": (1.0, 1.0)
    }  # fmt: skip
    assert figures(place) | {"verified_at": ""} == {
        "run_name": "here", "verified_at": "", "rows": 4, "judged": 4, "not_judged": 0, "changed": 2,
        "reward": {"count": 4, "mean": 0.5625},
    }  # fmt: skip
    assert {name: (place.result / name).read_bytes() for name in before} == before
    assert len(model.bodies) == asked


def test_what_cannot_be_judged_is_named_and_is_no_reward_of_0(place: Workplace) -> None:
    yes = {"verify": {"command": "test -f answer"}}
    rows = [
        row("fine", "echo 42 > answer", **yes),
        {"id": "without", "prompt": demo_prompt("without", "echo 42 > answer"), **yes},
        row("missing", "ls", **yes),
        row("output", "echo 42 > answer", **yes) | {"collect": {"command": "cat answer"}},
        row("unable", "echo 42 > answer", verify={"command": "no-such-program"}),
        row("failed", "ls", setup="exit 3", **yes),
        row("gone", "echo 42 > answer", **yes),
        row("changed", "echo 42 > answer", **yes),
    ]
    assert ran(place, rows) == 1
    places = {item["id"]: item["artifacts"]["place"] for item in place.rows()}
    (place.result / places["gone"] / "files" / "answer").unlink()
    (place.result / places["changed"] / "files" / "answer").write_text("")
    place.prompts([*rows, row("new", "ls", **yes)])

    done = judge_again(place)

    assert done.returncode == 1
    found = verified(place)
    assert {name for name, item in found.items() if item["judged"]} == {"fine"}
    assert all(item["reward"] is None for name, item in found.items() if name != "fine")
    for name, words in {
        "without": "nothing was brought out of its sandbox; give the row `collect` before it runs",
        "missing": "its artifacts are not complete: answer: there is no such file or folder",
        "output": "only a command's output was brought out; name files in collect.paths, or how",
        "unable": "the verifier ended with exit code 127",
        "failed": "it failed (SetupFailed), and what failed runs again",
        "gone": "what was brought out is gone: ",
        "changed": "answer in artifacts/",
        "new": "no end of it is stored; run it first",
    }.items():
        assert found[name]["why_not"].startswith(words)
        assert f"({name}): not judged: {words[:40]}" in done.stderr
    assert (figures(place)["judged"], figures(place)["not_judged"]) == (1, 8)


def test_artifacts_that_were_replaced_are_not_judged_and_keep_nobody_else_from_it(place: Workplace) -> None:
    changes: dict[str, Callable[[Path], None]] = {
        "same size": lambda file: write_at(file, "43\n"),
        "pipe": os.mkfifo,
        "folder": Path.mkdir,
        "link": lambda file: file.symlink_to("/etc/hostname"),
    }
    rows = [row(name, "echo 42 > answer", verify={"command": "true"}) for name in ("fine", *changes)]
    assert ran(place, rows) == 0
    places = {item["id"]: item["artifacts"]["place"] for item in place.rows()}
    for name, change in changes.items():
        file = place.result / places[name] / "files" / "answer"
        file.unlink()
        change(file)

    assert judge_again(place).returncode == 1

    found = verified(place)
    assert {name for name, item in found.items() if item["judged"]} == {"fine"}
    assert "is not what was brought out" in found["same size"]["why_not"]
    assert "is not what was brought out" in found["pipe"]["why_not"]
    assert "was replaced" in found["folder"]["why_not"]
    assert found["link"]["why_not"]


def write_at(file: Path, text: str) -> None:
    file.write_text(text)


def test_rewards_beyond_all_measure_are_no_rewards(place: Workplace) -> None:
    huge = {"command": "echo 1.7e308 > $BATCHRUN_REWARD_FILE"}
    assert ran(place, [row("a", "echo 1 > answer", verify=huge), row("b", "echo 1 > answer", verify=huge)]) == 1

    assert {item["reason"] for item in place.rows()} == {"VerifierFailed"}
    assert judge_again(place).returncode == 1
    assert figures(place)["reward"] == {"count": 0, "mean": None}


def test_a_verifier_that_was_mended_judges_what_failed_for_it(place: Workplace) -> None:
    assert ran(place, [row("mended", "echo 42 > answer", verify={"command": "no-such-program"})]) == 1
    place.prompts([row("mended", "echo 42 > answer", verify={"command": "grep 42 answer"})])
    assert judge_again(place).returncode == 0
    assert verified(place)["mended"]["reward"] == 1.0


def test_programs_stay_programs_and_a_patch_is_applied_again(place: Workplace) -> None:
    base = {"files": {"text": "one\n"}}
    program = "printf '#!/bin/sh\\necho 42\\n' > answer; chmod 755 answer"
    rows = [
        row("program", program, verify={"command": "[ $(./answer) = 42 ]"}),
        row("patch", "echo two >> text", **base, verify={"command": "grep two text"})
        | {"collect": {"command": "cat text", "restore": "cat $BATCHRUN_COLLECTED > text"}},
        row("stuck", "echo two >> text", **base, verify={"command": "grep two text"})
        | {"collect": {"command": "cat text", "restore": "echo no patch; exit 1"}},
    ]
    assert ran(place, rows) == 0

    assert judge_again(place).returncode == 1

    found = verified(place)
    assert (found["program"]["reward"], found["patch"]["reward"], found["stuck"]["reward"]) == (1.0, 1.0, None)
    assert found["stuck"]["why_not"] == "collect.restore ended with exit code 1; its output ends: no patch"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"prompt": "p"}], "no row has `verify`, so there is nothing to judge"),
        ([{"prompt": "p", "verify": {}}], "line 1: `verify` has no `command`"),
    ],
)
def test_what_cannot_be_begun_is_refused_with_the_fix(place: Workplace, rows: list[dict[str, Any]], words: str) -> None:
    place.prompts([{"prompt": "p"}])
    missing = judge_again(place)
    assert missing.returncode == 2
    assert "out/here: there are no results; run `batchrun local` first" in missing.stderr
    assert place.run("--sandbox", "process").returncode == 0
    place.prompts(rows)

    done = judge_again(place)

    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (place.result / "verified.jsonl").exists()


def test_the_example_runs_and_is_judged_again(place: Workplace) -> None:
    shutil.copytree(FOLDER / "data", place.folder / "data")
    shutil.copy(FOLDER / "7-verifier-and-artifacts.yaml", place.folder / "run.yaml")
    judged = Workplace(place.folder, "judged")
    assert judged.run("--sandbox", "process").returncode == 0
    assert [row["reward"] for row in judged.rows()] == [1.0, 1.0]

    done = judge_again(judged)

    assert (done.returncode, done.stderr) == (0, "")
    assert {name: item["reward"] for name, item in verified(judged).items()} == {"sum": 1.0, "edit": 1.0}
