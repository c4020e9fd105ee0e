"""Users and resources of rows, as `batchrun local` takes them without containers."""

from __future__ import annotations

from tests.cluster.harness.runs import demo_prompt
from tests.contract.local.support import Workplace


def test_a_user_fails_its_own_prompt_and_resources_are_ignored_and_that_is_said_once(place: Workplace) -> None:
    resources = {"limits": {"memory": "512Mi"}}
    place.prompts(
        [
            {"prompt": demo_prompt("Limited.", "echo fine"), "resources": resources},
            {"prompt": demo_prompt("Limited, too.", "echo fine"), "resources": resources},
            {"prompt": demo_prompt("As somebody else.", "id"), "user": "1000:1000"},
        ]
    )
    place.spec()

    done = place.run("--sandbox", "process")

    assert done.returncode == 1
    assert done.stdout.count("no limits. `resources` of rows are ignored.") == 1
    assert [(row["outcome"], row["reason"]) for row in place.rows()] == [
        ("completed", ""), ("completed", ""), ("failed", "SandboxUnavailable")
    ]  # fmt: skip
    assert "this row wants 1000:1000: run with --sandbox container" in place.rows()[2]["message"]
    assert all(row["extra"] == "{}" for row in place.rows())


def test_a_row_that_asks_for_more_than_the_spec_allows_is_refused(place: Workplace) -> None:
    place.prompts([{"prompt": "Fine."}, {"prompt": "Greedy.", "resources": {"limits": {"memory": "9Gi"}}}])
    place.spec(sandbox={"maxResources": {"memory": "8Gi"}})

    done = place.run()

    assert done.returncode == 2
    assert "line 2: `resources.limits.memory` is 9Gi, more than 8Gi of sandbox.maxResources" in done.stderr
    assert "Traceback" not in done.stderr
