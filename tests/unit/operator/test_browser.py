"""The browser's container: in which pods it is, and what it has."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.operator.builders import plan, subject

from batchrun_api import names
from batchrun_operator.manifests.batch_job import batch_job

TOOLS = {
    "web": {"search": {"provider": "DuckDuckGo"}, "allowedRanges": ["10.1.0.0/16"]},
    "vision": {},
    "browser": {"actionTimeoutSeconds": 7},
}


def pod_of(*, browser: bool) -> dict[str, Any]:
    batch = plan(2).batches[0].model_copy(update={"browser": browser})
    job = batch_job(subject(distribution={"browser": 50, "terminal": 50}, tools=TOOLS), plan(2), batch, 1)
    template: dict[str, Any] = job["spec"]["template"]
    return template


def test_only_pods_of_batches_that_have_drawn_it_have_a_browser() -> None:
    without, with_one = pod_of(browser=False), pod_of(browser=True)

    assert [item["name"] for item in without["spec"]["initContainers"]] == ["install"]
    assert "browser" not in json.dumps(without)
    assert [item["name"] for item in with_one["spec"]["initContainers"]] == ["install", "browser"]
    skipped = with_one["metadata"]["annotations"]["eks.amazonaws.com/skip-containers"]
    assert skipped == "install,browser,sandbox-0,sandbox-1"


def test_it_is_a_sidecar_without_any_secret_that_knows_the_opened_ranges() -> None:
    _, container = pod_of(browser=True)["spec"]["initContainers"]

    assert container["restartPolicy"] == "Always"
    assert container["args"] == [
        *("browser", "--socket", names.BROWSER_SOCKET),
        *("--action-timeout", "7"),
        *("--allow", "10.1.0.0/16"),
    ]
    assert "env" not in container
    assert container["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_its_socket_is_mounted_by_the_runner_and_by_no_sandbox() -> None:
    spec = pod_of(browser=True)["spec"]
    mounting = {
        container["name"]
        for container in [*spec["containers"], *spec["initContainers"]]
        if any(item["name"] == "browser-socket" for item in container["volumeMounts"])
    }

    assert mounting == {"runner", "browser"}
    volumes = [item["name"] for item in spec["volumes"]]
    assert len(volumes) == len(set(volumes))


def test_the_pod_has_room_for_it() -> None:
    def limit(*, browser: bool) -> int:
        return int(pod_of(browser=browser)["spec"]["resources"]["limits"]["memory"].removesuffix("Mi"))

    assert limit(browser=True) - limit(browser=False) == 2048
