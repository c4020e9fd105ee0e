"""Twenty hostile prompts in one batch: each has the end that the table says, and nobody else notices (torture.yaml)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from batchrun_api.names import LABEL_ATTEMPT, LABEL_ROLE
from tests.cluster.harness.evidence import assert_every_prompt_once, assert_figures_add_up, requests_by_prompt
from tests.cluster.harness.kubectl import Kubectl, wait_for
from tests.cluster.harness.node import Node
from tests.cluster.harness.runs import Run, Runs
from tests.cluster.harness.talk import calls_prompt, results
from tests.cluster.testbed.node import uses_cgroup_v1

TABLE: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "torture.yaml").read_text())
TIMEOUT_SECONDS = 8
AT_ONCE = 4
CALLS = 3
"""Of the model for a prompt that is not lost: the command, `echo alive`, the answer."""
CULPRIT = "full-disk"
SANDBOX = {
    "resources": {
        "requests": {"cpu": "50m", "memory": "64Mi"},
        "limits": {"cpu": "1", "memory": "256Mi", "ephemeral-storage": "256Mi"},
    },
    "maxProcesses": 200,
    "commandTimeoutSeconds": 280,
}


def data_set() -> list[dict[str, Any]]:
    """The rows of the table as prompts."""
    return [
        {
            "id": row["id"],
            "prompt": calls_prompt(
                row["id"],
                ("terminal", {"command": row["command"], "timeout": row.get("timeout", TIMEOUT_SECONDS)}),
                ("terminal", {"command": "echo alive"}),
            ),
        }
        for row in TABLE
    ]


def wanted_of(row: dict[str, Any]) -> dict[str, Any]:
    """What must become of a row of the table on this machine."""
    here = row if uses_cgroup_v1() else row | row.get("on_cgroup_v2", {})
    after = here.get("after", "") if here["exit_code"] != "lost" else ""
    return {
        "id": row["id"],
        "outcome": here["outcome"],
        "reason": here.get("reason", ""),
        "exit_code": here["exit_code"],
        "after": after,
        "says": here.get("says", []),
    }


def found_of(row: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """The same of a row of the result; words that are there stand as the table has them, else all that was said."""
    lost = row["outcome"] == "failed"
    first, *more = [{"exit_code": "lost"}] if lost else results(row)
    text = row["message"] if lost else json.dumps(first, ensure_ascii=False)
    after = "".join(result["error"] or result["output"].strip() for result in more)
    return {
        "id": row["id"],
        "outcome": row["outcome"],
        "reason": row["reason"],
        "exit_code": "timeout" if first.get("timed_out") else first["exit_code"],
        "after": wanted["after"] if wanted["after"] and wanted["after"] in after else after,
        "says": [words if words in text else text[-2000:] for words in wanted["says"]],
    }


@dataclass
class Watched:
    """What was seen of the runner and the node while the run went on."""

    runs: Runs
    node: Node
    run: Run
    peak_kib: int = 0
    node_states: set[tuple[str, str, str]] = field(default_factory=set)

    def look(self) -> dict[str, Any] | None:
        """One look; the condition that ends the run, when it is there."""
        self.node_states |= node_conditions(self.runs.kubectl)
        pod = self.run.running_pod()
        if pod is not None:
            self.peak_kib = max(self.peak_kib, self._peak_of(pod))
        return self.run.condition("Complete") or self.run.condition("Failed")

    def _peak_of(self, pod: dict[str, Any]) -> int:
        try:
            status = Path(f"/proc/{self.node.pid(pod, 'runner')}/status").read_text()
        except (KeyError, OSError):
            return 0  # it ended in this moment
        peak = re.search(r"VmHWM:\s+(\d+) kB", status)  # a dead one has none
        return int(peak[1]) if peak else 0


def node_conditions(kubectl: Kubectl) -> set[tuple[str, str, str]]:
    """Type, status and last transition of every condition of every node."""
    items = json.loads(kubectl.run("get", "nodes", "-o", "json"))["items"]
    return {(c["type"], c["status"], c["lastTransitionTime"]) for item in items for c in item["status"]["conditions"]}


@pytest.mark.alone
@pytest.mark.timeout(420)
def test_twenty_hostile_prompts_end_as_the_table_says_and_nobody_else_notices(runs: Runs, node: Node) -> None:
    prompts = data_set()
    assert len(prompts) == 20
    before = node_conditions(runs.kubectl)
    run = runs.start("torture", prompts, batchSize=20, numWorkers=1, promptsPerPod=AT_ONCE, sandbox=SANDBOX)
    watched = Watched(runs, node, run)

    ended = _wait(run, watched.look)

    assert (ended["type"], ended["reason"]) == ("Complete", "SomePromptsFailed"), run.story()
    rows = run.rows()
    assert_every_prompt_once(rows, prompts)
    wanted = [wanted_of(row) for row in TABLE]
    assert [found_of(row, want) for row, want in zip(rows, wanted, strict=True)] == wanted
    assert_figures_add_up(json.loads(runs.bucket.read(f"{run.prefix}/statistics.json")), rows)

    failed = {row["reason"] for row in wanted if row["reason"]}
    assert set(run.status["summary"]["reasons"]) == failed
    assert attempts_of(runs.kubectl) == {"3"}, "two evictions, and a pod that told of the second"
    assert_repeats(runs, prompts)
    assert (run.condition("Disrupted") or {})["reason"] == "DiskFull"
    assert 0 < watched.peak_kib < 200 * 1024
    assert watched.node_states == before, "the node was not Ready all the time"
    assert ("Ready", "True") in {(kind, status) for kind, status, _ in before}


def attempts_of(kubectl: Kubectl) -> set[str]:
    """Of the batch Jobs that are there: lost ones are removed, and the last pod is over too soon for a look."""
    jobs = json.loads(kubectl.run("get", "jobs", "-l", f"{LABEL_ROLE}=batch", "-o", "json"))["items"]
    return {job["metadata"]["labels"][LABEL_ATTEMPT] for job in jobs}


def _wait(run: Run, look: Callable[[], dict[str, Any] | None]) -> dict[str, Any]:
    try:
        return wait_for("the run has ended", look, 360)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{run.story()}") from None


def assert_repeats(runs: Runs, prompts: list[dict[str, Any]]) -> None:
    """The culprit was begun twice; of the others, only those beside it once more."""
    asked = requests_by_prompt(runs.model.bodies)
    by_id = {row["id"]: asked[row["prompt"]] for row in prompts}
    assert by_id.pop(CULPRIT) == 2
    calls = {row["id"]: 1 if wanted_of(row)["exit_code"] == "lost" else CALLS for row in TABLE}
    again = [name for name, number in by_id.items() if number > calls[name]]
    assert all(calls[name] <= number <= 2 * calls[name] for name, number in by_id.items()), by_id
    assert len(again) < AT_ONCE, by_id
