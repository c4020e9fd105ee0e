"""The toolset `browser` in whole local runs."""

from __future__ import annotations

from pathlib import Path

from tests.cluster.harness import browser_tools
from tests.cluster.harness.lab import Lab
from tests.cluster.harness.model import ModelServer
from tests.contract.local.support import Workplace, environment


def test_prompts_use_every_tool_of_the_browser_and_reach_no_private_address(place: Workplace) -> None:
    with Lab("127.0.0.1") as lab, ModelServer("127.0.0.1", script=browser_tools.SCRIPT) as eyes:
        place.prompts(browser_tools.rows(lab))
        spec = browser_tools.spec(lab, eyes)
        place.spec(**spec)
        done = place.run("--sandbox", "process")

        assert (done.returncode, done.stderr) == (0, "")
        rows = place.rows()

    browser_tools.judge(lab, eyes, rows)


def test_a_machine_without_chromium_refuses_a_run_that_wants_it_with_the_fix(place: Workplace) -> None:
    with Lab("127.0.0.1") as lab, ModelServer("127.0.0.1", script=browser_tools.SCRIPT) as eyes:
        place.prompts([{"prompt": "hello"}])
        place.spec(**browser_tools.spec(lab, eyes))
        refused = place.run("--sandbox", "process", environ=environment(BATCHRUN_CHROMIUM="/nowhere/chromium"))

    assert refused.returncode == 2
    assert "spec.tools.browser: BATCHRUN_CHROMIUM names /nowhere/chromium, which is no program" in refused.stderr
    assert "leave tools.browser out, with tools.onUnavailable: Drop" in refused.stderr
    assert not Path(place.result / "trajectories.jsonl").exists()


def test_without_its_field_it_is_unavailable_by_name(place: Workplace) -> None:
    place.prompts([{"prompt": "hello"}])
    place.spec(distribution="browser_only")
    refused = place.run("--sandbox", "process")

    assert refused.returncode == 2
    assert "browser (needs tools.browser and tools.web and tools.vision)" in refused.stderr
