"""The tools of the sandbox in pods."""

from __future__ import annotations

from tests.cluster.harness import sandbox_tools
from tests.cluster.harness.runs import Runs


def test_every_tool_of_the_sandbox_works_and_its_failures_are_counted(runs: Runs) -> None:
    run = runs.start("sandbox-tools", sandbox_tools.rows(), **sandbox_tools.SPEC)
    run.wait_complete()

    sandbox_tools.judge(run.rows())
