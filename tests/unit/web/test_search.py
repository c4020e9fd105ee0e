"""Search providers against servers that speak as theirs do."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from tests.cluster.harness.web import Site

from batchrun_api.spec.tools import WebSearch
from batchrun_runner.web.errors import WebFailure
from batchrun_runner.web.search import Hit, provider_of

KEY = "the-search-key"


class _Provider:
    """Answers every request alike and keeps it."""

    def __init__(self) -> None:
        self.status, self.body = 200, b"{}"
        self.requests: list[tuple[str, str, dict[str, str], bytes]] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                provider.requests.append((self.command, self.path, dict(self.headers), body))
                self.send_response(provider.status)
                self.send_header("Content-Length", str(len(provider.body)))
                self.end_headers()
                self.wfile.write(provider.body)

            do_POST = do_GET  # noqa: N815 - the name that the base class looks for

            def log_message(self, *_: Any) -> None: ...

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"


@pytest.fixture
def provider() -> Iterator[_Provider]:
    made = _Provider()
    thread = threading.Thread(target=made.server.serve_forever, args=[0.05], daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()


def _spec(**fields: Any) -> WebSearch:
    return WebSearch.model_validate(fields)


async def _ask(search: WebSearch, query: str = "sea otters", limit: int = 3) -> list[Hit]:
    provider = provider_of(search, KEY)
    try:
        return await provider.search(query, limit)
    finally:
        await provider.aclose()


async def test_searxng_is_asked_for_json_and_entries_without_an_address_are_left_out() -> None:
    with Site("127.0.0.1") as site:
        hits = await _ask(_spec(provider="SearXNG", baseURL=site.url + "/"))
        none = await _ask(_spec(provider="SearXNG", baseURL=site.url), "nothing at all")

    assert [hit.url for hit in hits] == [f"{site.url}/otters?{number}" for number in range(3)]
    assert hits[0].title == "Result 0 for sea otters"
    assert none == []


async def test_brave_is_asked_with_its_key_in_its_header(provider: _Provider) -> None:
    provider.body = json.dumps(
        {"web": {"results": [{"title": "T", "url": "https://a.example", "description": "D"}] * 5}}
    ).encode()

    hits = await _ask(_spec(provider="Brave", baseURL=provider.url), limit=2)

    assert hits == [Hit("T", "https://a.example", "D")] * 2
    ((method, path, headers, _),) = provider.requests
    assert (method, path) == ("GET", "/v1/web/search?q=sea+otters&count=2")
    assert {name.lower(): value for name, value in headers.items()}["x-subscription-token"] == KEY


async def test_tavily_is_asked_with_its_key_as_bearer(provider: _Provider) -> None:
    provider.body = json.dumps({"results": [{"title": "T", "url": "https://a.example", "content": "C"}]}).encode()

    hits = await _ask(_spec(provider="Tavily", baseURL=provider.url))

    assert hits == [Hit("T", "https://a.example", "C")]
    ((method, path, headers, body),) = provider.requests
    assert (method, path) == ("POST", "/v1/search")
    assert {name.lower(): value for name, value in headers.items()}["authorization"] == f"Bearer {KEY}"
    assert json.loads(body) == {"query": "sea otters", "max_results": 3}


async def test_duckduckgo_gives_what_its_package_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    import ddgs

    asked: list[tuple[str, dict[str, Any]]] = []

    class Package:
        def __init__(self, timeout: int) -> None:
            self.timeout = timeout

        def text(self, query: str, **options: Any) -> list[dict[str, Any]]:
            asked.append((query, options))
            return [{"title": "T", "href": "https://a.example", "body": "B"}]

    monkeypatch.setattr(ddgs, "DDGS", Package)

    assert await _ask(_spec(provider="DuckDuckGo")) == [Hit("T", "https://a.example", "B")]
    assert asked == [("sea otters", {"max_results": 3, "backend": "duckduckgo"})]


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, b'{"error": "the-search-key is wrong"}', "provider_error"),
        (429, b"", "provider_error"),
        (200, b"<html>", "provider_error"),
    ],
)
async def test_a_provider_that_refuses_is_named_and_its_words_are_not_passed_on(
    provider: _Provider, status: int, body: bytes, kind: str
) -> None:
    provider.status, provider.body = status, body
    with pytest.raises(WebFailure) as caught:
        await _ask(_spec(provider="Tavily", baseURL=provider.url))

    assert caught.value.kind == kind
    assert "Tavily" in caught.value.message
    assert KEY not in caught.value.message


@pytest.mark.parametrize("body", [b"[]", b"null", b'{"results": 5}', b'{"results": [5, {"url": 6}]}'])
async def test_odd_answers_are_no_results(provider: _Provider, body: bytes) -> None:
    provider.body = body

    assert await _ask(_spec(provider="Tavily", baseURL=provider.url)) == []


async def test_a_provider_that_is_not_there_is_unreachable(provider: _Provider) -> None:
    provider.server.server_close()
    with pytest.raises(WebFailure) as caught:
        await _ask(_spec(provider="SearXNG", baseURL=provider.url))

    assert caught.value.kind == "unreachable"
