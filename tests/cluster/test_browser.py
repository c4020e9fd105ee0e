"""The toolset `browser` in pods."""

from __future__ import annotations

import pytest

from tests.cluster.harness import browser_tools
from tests.cluster.harness.lab import Lab
from tests.cluster.harness.model import ModelServer
from tests.cluster.harness.runs import Runs


@pytest.mark.timeout(400)
def test_prompts_use_every_tool_of_the_browser_and_reach_no_private_address(runs: Runs, node_address: str) -> None:
    with Lab(node_address) as lab, ModelServer(node_address, script=browser_tools.SCRIPT) as eyes:
        run = runs.start("browser", browser_tools.rows(lab), **browser_tools.spec(lab, eyes))
        run.wait_complete(300)

        browser_tools.judge(lab, eyes, run.rows())
