"""One run with three samples of each prompt whose verdicts differ, and its figures, reckoned by hand."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from tests.cluster.harness.evidence import assert_figures_add_up

SAMPLES = 3
SEED = 100
SPEC: dict[str, Any] = {"samplesPerPrompt": SAMPLES, "batchSize": 4, "promptsPerPod": 2}
_VERIFY = {"command": 'case "$(cat answer)" in right) exit 0;; wrong) exit 1;; *) exit 127;; esac'}


def judged(text: str, *answers: str, delay_ms: int = 0) -> dict[str, Any]:
    """A row whose samples leave these answers behind, in the order in which they ask the model; then the last again."""
    turns = [
        [
            {
                "reasoning": "next",
                "tool_calls": [{"name": "terminal", "arguments": {"command": f"echo {answer} > answer"}}],
                "delay_ms": delay_ms,
            }
            for answer in answers
        ],
        {"reasoning": "all done", "content": "done"},
    ]
    return {"prompt": f"{text}\n```demo\n{json.dumps(turns)}\n```\n", "verify": _VERIFY}


_ROWS: dict[str, dict[str, Any]] = {
    "all": judged("All right.", "right"),
    "two": judged("Two of three.", "right", "wrong", "right"),
    "one": judged("One of three.", "wrong", "right", "wrong"),
    "none": judged("Never right.", "wrong"),
    "unable": judged("One verifier cannot run.", "right", "unable", "wrong"),
    "unjudged": {"prompt": judged("Nobody judges.", "right")["prompt"]},
}
FAILED = 1
_PASSED = {"all": [1.0, 1.0, 1.0], "two": [0.0, 1.0, 1.0], "one": [0.0, 0.0, 1.0], "none": [0.0, 0.0, 0.0]} | {
    "unable": [0.0, 1.0],
    "unjudged": [],
}
SAMPLES_BY_REWARD = {"with_reward": 14, "passed": 7, "not_judged": 3, "failed": 1, "not_run": 0}
ESTIMATES = [
    # 3/3, 2/3, 1/3, 0/3, 1/2
    {"k": 1, "value": round((1 + 2 / 3 + 1 / 3 + 0 + 1 / 2) / 5, 6), "prompts": 5},
    # Of the pairs out of three with one right, one has none.
    {"k": 2, "value": round((1 + 1 + 2 / 3 + 0 + 1) / 5, 6), "prompts": 5},
    {"k": 3, "value": round((1 + 1 + 1 + 0) / 4, 6), "prompts": 4},
]


def rows(cwd: str = "") -> list[dict[str, Any]]:
    """The data set; `cwd` for all of them."""
    return [{"id": name, **row} | ({"cwd": cwd} if cwd else {}) for name, row in _ROWS.items()]


def judge(
    found: Sequence[Mapping[str, Any]], statistics: Mapping[str, Any], bodies: Sequence[Mapping[str, Any]]
) -> None:
    """Order, rewards, seeds and figures of the run in which each sample was asked once."""
    names = list(_ROWS)
    assert [(row["prompt_index"], row["sample"], row["id"]) for row in found] == [
        (index, sample, name) for index, name in enumerate(names) for sample in range(SAMPLES)
    ]
    rewards = defaultdict(list)
    for row in found:
        if row["reward"] is not None:
            rewards[row["id"]].append(row["reward"])
    assert {name: sorted(rewards[name]) for name in names} == _PASSED
    assert Counter(row["outcome"] for row in found) == {"completed": len(found) - FAILED, "failed": FAILED}

    assert [json.loads(row["sampling"])["seed"] for row in found] == [SEED, SEED + 1, SEED + 2] * len(names)
    assert Counter(body["seed"] for body in bodies) == {SEED + sample: 2 * len(names) for sample in range(SAMPLES)}

    assert_figures_add_up(statistics, found)
    assert statistics["samples_per_prompt"] == SAMPLES
    assert statistics["reward"] == {"count": 14, "mean": 0.5}
    assert statistics["pass_at_k"] == {"samples": SAMPLES_BY_REWARD, "estimates": ESTIMATES}


def by_subsets(found: Sequence[Mapping[str, Any]], k: int) -> float:
    """pass@k of rows, by trying all ways to draw k of a prompt's samples."""
    verdicts = defaultdict(list)
    for row in found:
        if row["reward"] is not None:
            verdicts[row["prompt_index"]].append(row["reward"] >= 1)
    shares = [
        sum(any(drawn) for drawn in combinations(samples, k)) / len(list(combinations(samples, k)))
        for samples in verdicts.values()
        if len(samples) >= k
    ]
    return sum(shares) / len(shares)
