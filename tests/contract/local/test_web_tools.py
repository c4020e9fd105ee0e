"""The toolset `web` in whole local runs."""

from __future__ import annotations

from tests.cluster.harness import web_tools
from tests.cluster.harness.web import Site
from tests.contract.local.support import Workplace, environment


def test_prompts_search_and_read_and_reach_no_private_address(place: Workplace) -> None:
    with Site("127.0.0.1") as site:
        place.prompts(web_tools.rows(site))
        place.spec(**web_tools.spec(site))
        done = place.run("--sandbox", "process")

        assert (done.returncode, done.stderr) == (0, "")
        web_tools.judge(site, place.rows())


def test_a_toolset_without_its_settings_is_refused_by_name_and_dropped_on_demand(place: Workplace) -> None:
    place.prompts([{"prompt": "hello"}])
    place.spec(distribution="terminal_web")
    refused = place.run("--sandbox", "process")

    assert refused.returncode == 2
    assert "spec.distribution: these toolsets do not work: web (needs tools.web)" in refused.stderr
    assert "set tools.onUnavailable to Drop to run without them" in refused.stderr
    assert "ToolsetUnavailable" in refused.stderr

    place.spec(distribution="terminal_web", tools={"onUnavailable": "Drop"})
    assert place.run("--sandbox", "process").returncode == 0
    (row,) = place.rows()
    assert row["toolsets_used"] == ["terminal", "file"]
    assert "web_search" not in row["tools"]


def test_a_provider_without_its_key_is_refused_with_the_variable_and_the_key_is_kept_nowhere(place: Workplace) -> None:
    key = "tvly-a-key-that-nobody-may-see"
    place.prompts(web_tools.rows(site := Site("127.0.0.1")))
    with site:
        tools = {"web": {"search": {"provider": "Tavily", "baseURL": site.url}}}
        place.spec(distribution={"web": 100}, tools=tools)
        refused = place.run("--sandbox", "process")
        done = place.run("--sandbox", "process", environ=environment(TAVILY_API_KEY=key))

    assert refused.returncode == 2
    assert "spec.tools.web.search.provider Tavily needs a key: set TAVILY_API_KEY" in refused.stderr
    assert done.returncode == 0
    assert not any(key.encode() in body for body in place.objects().values())
    assert key not in done.stdout + done.stderr


def test_ranges_that_are_none_are_refused_by_field(place: Workplace) -> None:
    place.prompts([{"prompt": "hello"}])
    web = {"search": {"provider": "DuckDuckGo"}, "allowedRanges": ["10.0.0.1/8"]}
    place.spec(distribution={"web": 100}, tools={"web": web})
    refused = place.run("--sandbox", "process")

    assert refused.returncode == 2
    assert "spec.tools.web.allowedRanges" in refused.stderr
    assert "host bits" in refused.stderr
