"""One run whose prompts browse, and what its result must look like in both modes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from batchrun_api.toolsets import TOOLSETS
from tests.cluster.harness.lab import ASK, NAME, Lab
from tests.cluster.harness.model import ModelServer
from tests.cluster.harness.talk import calls_prompt, results

SCRIPT: list[dict[str, Any]] = [{"match": "colour", "turns": [{"content": "The square is red."}]}]
"""For the model that sees."""


def spec(lab: Lab, eyes: ModelServer) -> dict[str, Any]:
    """Fields over a spec that works otherwise; the site is opened, for it is on a private address."""
    web = {"search": {"provider": "SearXNG", "baseURL": lab.url}, "allowedRanges": [f"{lab.host}/32"]}
    vision = {"model": {"name": "sees/well", "baseURL": eyes.base_url}}
    return {
        "distribution": {"terminal": 100, "browser": 100},
        "agent": {"maxTurns": 15},
        "tools": {"web": web, "vision": vision, "browser": {"actionTimeoutSeconds": 20}},
    }


def rows(lab: Lab) -> list[dict[str, Any]]:
    """The data set."""
    look = ("browser_vision", {"question": "Which colour has the square?"})
    prompts = {
        "uses all": calls_prompt(
            "Use all.",
            ("web_search", {"query": "lab"}),
            ("browser_navigate", {"url": f"{lab.url}/moved"}),
            ("browser_click", {"ref": ASK}),
            ("browser_type", {"ref": NAME, "text": "Otto"}),
            ("browser_scroll", {"direction": "down"}),
            ("browser_get_images", {}),
            look,
            ("browser_console", {"clear": True}),
            ("browser_press", {"key": "Enter"}),
            ("browser_snapshot", {"full": True}),
            ("browser_back", {}),
        ),
        "pries": calls_prompt(
            "Pry.",
            ("browser_snapshot", {}),
            ("browser_navigate", {"url": f"{lab.url}/to-metadata"}),
            ("browser_navigate", {"url": "http://[::ffff:10.0.0.1]/"}),
            ("browser_navigate", {"url": "http://127.0.0.2:81/"}),
            ("browser_navigate", {"url": "file:///etc/passwd"}),
            ("browser_navigate", {"url": f"{lab.url}/cookies"}),
        ),
        "reads": calls_prompt("Read.", ("browser_navigate", {"url": f"{lab.url}/long"})),
    }
    return [{"id": name, "prompt": prompt} for name, prompt in prompts.items()]


def judge(lab: Lab, eyes: ModelServer, result: Sequence[dict[str, Any]]) -> None:
    """Results of the calls, their counts, and what the site was asked."""
    found = {row["id"]: row for row in result}
    assert {row["outcome"] for row in result} == {"completed"}
    assert all(row["toolsets_used"] == ["terminal", "browser"] for row in result)
    said = {name: results(row) for name, row in found.items()}

    _, page, clicked, _, scrolled, images, seen, console, sent, snapshot, left = said["uses all"]
    assert (page["url"], page["title"], page["status"]) == (f"{lab.url}/lab", "The lab", 200)
    assert f'button "Ask" [ref={ASK}]' in page["snapshot"]
    assert clicked["events"] == ["the page opened the dialog (confirm) 'Really?', which was accepted"]
    assert scrolled["scrolled_to"]["top"] > 0
    assert images["images"][0]["alt"] == "A red square"
    assert seen["analysis"] == "The square is red."
    assert {"type": "log", "text": "the lab is open"} in console["messages"]
    assert sent["url"] == f"{lab.url}/hello?name=Otto"
    assert 'heading "Hello Otto"' in snapshot["snapshot"]
    assert left["title"] == "The lab"
    stats = found["uses all"]["tool_stats"]
    assert all(stats[tool] == {"count": 1, "success": 1, "failure": 0} for tool in TOOLSETS["browser"])
    assert len(eyes.bodies) == 1

    no_page, metadata, mapped, loopback, file, cookies = said["pries"]
    assert "call browser_navigate first" in no_page["error"]
    assert "169.254.169.254, which is not a public address" in metadata["error"]
    assert "10.0.0.1" in mapped["error"]
    assert "which is not a public address" in loopback["error"]
    assert "only http and https" in file["error"]
    assert "cookies: none" in cookies["snapshot"], "what the other prompt's page has set is not here"
    assert found["pries"]["tool_error_counts"]["browser_navigate"] == 4

    (long,) = said["reads"]
    assert len(long["snapshot"].encode()) <= 12_000
    assert long["snapshot"].splitlines()[-1].endswith("of many")
    assert "bytes at the end were left out" in long["omitted"]
