"""One run whose rows bring settings and verifiers of their own, and what its result must look like in both modes."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from tests.cluster.harness.evidence import assert_figures_add_up
from tests.cluster.harness.parameters import script
from tests.cluster.harness.runs import demo_prompt

SPEC: dict[str, Any] = {"agent": {"maxTurns": 5, "timeoutSeconds": 600}, "batchSize": 7, "promptsPerPod": 3}
SECRET = "the-verifier-alone-knows-this"
_DAEMON = "setsid sh -c 'while :; do echo 42 > answer; sleep 0.01; done' >/dev/null 2>&1 & echo started"
_CHECK = {"check.sh": f'# {SECRET}\n[ "$(cat answer)" = 42 ]\n'}


def _verified(text: str, command: str, work: str = "ls -a") -> dict[str, Any]:
    return {"prompt": demo_prompt(text, work), "verify": {"command": command, "files": _CHECK}}


_ROWS: dict[str, dict[str, Any]] = {
    "brought": {
        "prompt": demo_prompt("What lies here?", "cat notes/a.txt packed ready; echo colour $COLOUR"),
        "env": {"COLOUR": "blue"},
        "files": {"notes/a.txt": "a note\n", "packed": {"base64": base64.b64encode(b"packed bytes\n").decode()}},
        "setup": "test -f packed && echo setup saw $COLOUR > ready",
    },
    "setup": {"prompt": demo_prompt("Never asked.", "ls"), "setup": "echo there is no such package; exit 3"},
    "turns": {"prompt": demo_prompt("Too long.", "echo 1", "echo 2", "echo 3"), "maxTurns": 1},
    "time": {"prompt": demo_prompt("Too slow.", "sleep 300"), "timeoutSeconds": 1},
    "right": _verified("Right.", "sh check.sh", "ls -a; echo 42 > answer"),
    "wrong": _verified("Wrong.", "sh check.sh", "ls -a; echo 41 > answer"),
    "number": _verified("A number.", "echo 0.25 > $BATCHRUN_REWARD_FILE; echo printed; exit 1"),
    "printed": _verified("Printed only.", "echo 1.0; exit 1"),
    "unable": _verified("No verifier.", "no-such-program"),
    "nonsense": _verified("No number.", "echo much > $BATCHRUN_REWARD_FILE"),
    "daemon": _verified("A daemon.", "rm -f answer; sleep 0.3; test ! -e answer", _DAEMON),
    "gone": _verified("Its folder is gone.", "pwd; test -f check.sh", 'rm -rf "$PWD"'),
    "endless": {"prompt": demo_prompt("Endless.", "ls"), "verify": {"command": "sleep 300", "timeoutSeconds": 1}},
    "thoughtless": {"prompt": script("Without a thought.", {"content": "done"}), "verify": {"command": "true"}},
}
_ENDS = {
    "brought": ("completed", "", None),
    "setup": ("failed", "SetupFailed", None),
    "turns": ("truncated", "MaxTurns", None),
    "time": ("truncated", "TimeLimit", None),
    "right": ("completed", "", 1.0),
    "wrong": ("completed", "", 0.0),
    "number": ("completed", "", 0.25),
    "printed": ("completed", "", 0.0),
    "unable": ("failed", "VerifierFailed", None),
    "nonsense": ("failed", "VerifierFailed", None),
    "daemon": ("completed", "", 1.0),
    "gone": ("completed", "", 1.0),
    "endless": ("completed", "", 0.0),
}
FAILED = sum(outcome == "failed" for outcome, _, _ in _ENDS.values())


def rows(cwd: str = "") -> list[dict[str, Any]]:
    """The data set; `cwd` for all of them."""
    return [{"id": name, **row} | ({"cwd": cwd} if cwd else {}) for name, row in _ROWS.items()]


def judge(
    kept: Sequence[Mapping[str, Any]],
    discarded: Sequence[Mapping[str, Any]],
    statistics: Mapping[str, Any],
    bodies: Sequence[Mapping[str, Any]],
) -> None:
    """Ends, rewards, what was kept of verifiers, figures; and that the model heard of none of it."""
    found = {row["id"]: row for row in kept}
    assert {name: (row["outcome"], row["reason"], row["reward"]) for name, row in found.items()} == _ENDS
    (dropped,) = discarded
    assert (dropped["id"], dropped["reason"], dropped["reward"]) == ("thoughtless", "NoReasoning", 1.0)

    (tool_turn,) = (turn["value"] for turn in found["brought"]["conversations"] if turn["from"] == "tool")
    for words in ("a note", "packed bytes", "setup saw blue", "colour blue"):
        assert words in tool_turn
    assert found["setup"]["api_calls"] == 0
    assert found["setup"]["message"] == "setup ended with exit code 3; its output ends: there is no such package"
    assert found["turns"]["api_calls"] == 2, "one turn and the closing call"

    assert not any(found[name]["verification"]["ran"] for name in ("brought", "setup", "turns", "time"))
    assert found["right"]["verification"] | {"seconds": 0} == {
        "ran": True, "exit_code": 0, "timed_out": False, "output": "", "seconds": 0
    }  # fmt: skip
    assert found["printed"]["verification"]["output"] == "1.0\n"
    assert (found["number"]["verification"]["exit_code"], found["number"]["verification"]["output"]) == (1, "printed\n")
    assert found["endless"]["verification"]["timed_out"]
    assert found["unable"]["verification"]["exit_code"] == 127
    assert "exit code 127" in found["unable"]["message"]
    assert "'much'" in found["nonsense"]["message"]

    assert_figures_add_up(statistics, [*kept, *discarded])
    assert statistics["reward"] == {"count": 8, "mean": round(4.25 / 8, 6)}
    for body in bodies:
        told = str(body)
        assert SECRET not in told
        assert "REWARD_FILE" not in told
        assert "check.sh" not in told
