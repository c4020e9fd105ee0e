"""One run whose prompts search and read, and what its result must look like in both modes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.cluster.harness.talk import calls_prompt, results
from tests.cluster.harness.web import Site


def spec(site: Site) -> dict[str, Any]:
    """Fields over a spec that works otherwise; the site is opened, for it is on a private address."""
    web = {"search": {"provider": "SearXNG", "baseURL": site.url}, "allowedRanges": [f"{site.host}/32"]}
    return {"distribution": {"web": 100, "terminal": 100}, "tools": {"web": web}}


def rows(site: Site) -> list[dict[str, Any]]:
    """The data set."""

    def read(*urls: str) -> tuple[str, dict[str, Any]]:
        return "web_extract", {"urls": urls}

    prompts = {
        "searches": calls_prompt(
            "Search.", ("web_search", {"query": "otters", "limit": 2}), ("web_search", {"query": ""})
        ),
        "reads": calls_prompt("Read.", read(f"{site.url}/moved", f"{site.url}/gone")),
        "pries": calls_prompt(
            "Pry.",
            read(f"{site.url}/to-metadata"),
            read("http://[::1]:1/", "http://[::ffff:10.0.0.1]/"),
            read("file:///etc/passwd"),
        ),
    }
    return [{"id": name, "prompt": prompt} for name, prompt in prompts.items()]


def judge(site: Site, result: Sequence[dict[str, Any]]) -> None:
    """Results of the calls, their counts, and what the site was asked."""
    found = {row["id"]: row for row in result}
    assert {row["outcome"] for row in result} == {"completed"}
    assert all(row["toolsets_used"] == ["web", "terminal"] for row in result)
    said = {name: results(row) for name, row in found.items()}

    first, refused = said["searches"]
    assert [hit["url"] for hit in first["results"]] == [f"{site.url}/otters?0", f"{site.url}/otters?1"]
    assert "query" in refused["error"]
    assert found["searches"]["tool_stats"]["web_search"] == {"count": 2, "success": 1, "failure": 1}

    (read,) = said["reads"]
    good, bad = read["results"]
    assert (good["title"], good["url"]) == ("Of otters", f"{site.url}/otters")
    assert "hold hands while they sleep" in good["content"]
    assert "404" in bad["error"]
    assert found["reads"]["tool_stats"]["web_extract"] == {"count": 1, "success": 1, "failure": 0}

    metadata, private, file = said["pries"]
    assert "169.254.169.254, which is not a public address" in metadata["error"]
    assert "::1" in private["error"]
    assert "10.0.0.1" in private["error"]
    assert "only http and https" in file["error"]
    assert found["pries"]["tool_error_counts"]["web_extract"] == 3
    asked = {path.partition("?")[0] for _, path in site.asked}
    assert asked == {"/search", "/moved", "/otters", "/gone", "/to-metadata"}
