"""The tools of the sandbox in whole local runs."""

from __future__ import annotations

from tests.cluster.harness import sandbox_tools
from tests.contract.local.support import Workplace


def test_every_tool_of_the_sandbox_works_and_its_failures_are_counted(place: Workplace) -> None:
    place.prompts(sandbox_tools.rows())
    place.spec(**sandbox_tools.SPEC)
    done = place.run("--sandbox", "process")

    assert (done.returncode, done.stderr) == (0, "")
    sandbox_tools.judge(place.rows())
