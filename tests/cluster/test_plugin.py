"""`kubectl batchrun` as a user runs it: kubectl finds the plugin on the PATH."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.harness.kubectl import wait_for
from tests.cluster.harness.runs import Run, Runs

ROWS = [{"prompt": f"Prompt number {number}."} for number in range(3)]
LOST = {"id": "lost", "prompt": "lost image", "image": "registry.invalid/none:1"}


def plugin(runs: Runs, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`kubectl batchrun ...`; flags stand behind the command, for kubectl passes none on."""
    program, kubeconfig, namespace = runs.kubectl._base
    environ = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"
    words = [program, "batchrun", *arguments, kubeconfig, namespace]
    return subprocess.run(words, capture_output=True, text=True, timeout=200, check=False, env=environ)


@pytest.mark.timeout(400)
def test_a_run_is_watched_to_its_end_looked_into_fetched_and_run_again(runs: Runs, tmp_path: Path) -> None:
    run = runs.start("looked-at", [*ROWS, LOST])

    watched = plugin(runs, "watch", run.name)

    assert watched.returncode == 1, watched.stderr
    assert "4/4 prompts, 3 completed, 1 failed" in watched.stdout
    assert watched.stdout.count("Complete (SomePromptsFailed)") == 1

    failed = json.loads(plugin(runs, "failures", run.name, "-o", "json").stdout)
    everything = json.loads(plugin(runs, "failures", run.name, "--all", "-o", "json").stdout)
    assert [(item["promptIndex"], item["id"], item["reason"]) for item in failed] == [(3, "lost", "ImageUnavailable")]
    assert [(item["promptIndex"], item["id"], item["reason"]) for item in everything] == [
        (3, "lost", "ImageUnavailable")
    ]

    assert json.loads(plugin(runs, "stats", run.name, "-o", "json").stdout)["outcomes"]["completed"] == 3
    assert json.loads(plugin(runs, "logs", run.name, "0").stdout)["outcome"] == "completed"

    folder = tmp_path / "results"
    assert plugin(runs, "download", run.name, str(folder)).returncode == 0
    assert (folder / "trajectories.jsonl").read_bytes() == runs.bucket.read(f"{run.prefix}/trajectories.jsonl")
    assert "is up to date" in plugin(runs, "download", run.name, str(folder)).stdout

    plan = run.status["plan"]["id"]
    assert plugin(runs, "retry", run.name).returncode == 0
    wait_for("it is planned again", lambda: run.status["plan"]["id"] != plan)
    run.wait_complete()


def test_a_run_is_suspended_and_goes_on(runs: Runs) -> None:
    run: Run = runs.start("paused", ROWS, batchSize=1, numWorkers=1)
    assert plugin(runs, "suspend", run.name).returncode == 0
    assert run.get()["spec"]["suspend"] is True
    assert "already" in plugin(runs, "suspend", run.name).stdout
    assert plugin(runs, "resume", run.name).returncode == 0
    assert plugin(runs, "watch", run.name).returncode == 0


def test_a_mistake_is_told_in_one_line(runs: Runs) -> None:
    for command in (["watch", "none"], ["stats", "none"], ["retry", "none"], ["logs", "none", "0"]):
        done = plugin(runs, *command)
        assert done.returncode != 0
        assert done.stderr.startswith("error: there is no BatchRun none"), done.stderr
        assert "Traceback" not in done.stderr
