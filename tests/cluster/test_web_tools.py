"""The toolset `web` in pods."""

from __future__ import annotations

import pytest

from tests.cluster.harness import web_tools
from tests.cluster.harness.runs import Runs
from tests.cluster.harness.web import Site


@pytest.mark.timeout(300)
def test_prompts_search_and_read_and_reach_no_private_address(runs: Runs, node_address: str) -> None:
    with Site(node_address) as site:
        run = runs.start("web-tools", web_tools.rows(site), **web_tools.spec(site))
        run.wait_complete(200)

        web_tools.judge(site, run.rows())


def test_a_toolset_without_its_settings_is_a_condition_that_names_what_is_missing(runs: Runs) -> None:
    run = runs.start("no-web", [{"prompt": "hello"}], distribution="terminal_web")
    run.wait_ended(60)
    failed = run.condition("Failed")

    assert failed is not None
    assert failed["reason"] == "ToolsetUnavailable"
    assert "web (needs tools.web)" in failed["message"]
    assert "tools.onUnavailable to Drop" in failed["message"]
    assert runs.model.requests == 0
