"""Search providers, all with one face."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import httpx2

from batchrun_api.spec.tools import WebSearch
from batchrun_runner.web.errors import WebFailure

BRAVE_URL = "https://api.search.brave.com/res/v1"
"""https://api-dashboard.search.brave.com/app/documentation"""
TAVILY_URL = "https://api.tavily.com"
"""https://docs.tavily.com/documentation/api-reference"""


@dataclass(frozen=True, slots=True)
class Hit:
    """One result."""

    title: str
    url: str
    description: str


class SearchProvider(Protocol):
    """Who answers searches."""

    async def search(self, query: str, limit: int) -> list[Hit]:
        """At most `limit` results, best first. Raises WebFailure."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


def provider_of(search: WebSearch, key: str) -> SearchProvider:
    """The provider that the spec names."""
    match search.provider:
        case "SearXNG":
            return _SearXNG(search, search.base_url or "")
        case "Brave":
            return _Brave(search, search.base_url or BRAVE_URL, {"X-Subscription-Token": key})
        case "Tavily":
            return _Tavily(search, search.base_url or TAVILY_URL, {"Authorization": f"Bearer {key}"})
        case "DuckDuckGo":
            return _DuckDuckGo(search)


class _OverHTTP:
    """What the providers with an HTTP API share. Their words are not shown: they may quote the key."""

    def __init__(self, search: WebSearch, base_url: str, headers: Mapping[str, str] | None = None) -> None:
        self._name = search.provider
        self._seconds = search.timeout_seconds
        self._base_url = base_url.rstrip("/")
        self._client = httpx2.AsyncClient(headers=headers, timeout=self._seconds)

    async def aclose(self) -> None:
        await self._client.aclose()

    async def _ask(self, method: str, path: str, **options: Any) -> Any:
        try:
            async with asyncio.timeout(self._seconds):
                response = await self._client.request(method, self._base_url + path, **options)
        except TimeoutError:
            raise WebFailure("timeout", f"{self._name} did not answer within {self._seconds} s") from None
        except httpx2.HTTPError as error:
            raise WebFailure("unreachable", f"{self._name} cannot be reached: {type(error).__name__}") from error
        if response.status_code != 200:
            raise WebFailure("provider_error", f"{self._name} answers {response.status_code}")
        try:
            return response.json()
        except ValueError as error:
            raise WebFailure("provider_error", f"{self._name} answers with what is no JSON") from error


class _SearXNG(_OverHTTP):
    """https://docs.searxng.org/dev/search_api.html"""

    async def search(self, query: str, limit: int) -> list[Hit]:
        answer = await self._ask("GET", "/search", params={"q": query, "format": "json"})
        return _hits(answer, ("results",), "content", limit)


class _Brave(_OverHTTP):
    async def search(self, query: str, limit: int) -> list[Hit]:
        answer = await self._ask("GET", "/web/search", params={"q": query, "count": str(limit)})
        return _hits(answer, ("web", "results"), "description", limit)


class _Tavily(_OverHTTP):
    async def search(self, query: str, limit: int) -> list[Hit]:
        answer = await self._ask("POST", "/search", json={"query": query, "max_results": limit})
        return _hits(answer, ("results",), "content", limit)


class _DuckDuckGo:
    """By the package ddgs, which follows what changes there."""

    def __init__(self, search: WebSearch) -> None:
        self._seconds = search.timeout_seconds

    async def search(self, query: str, limit: int) -> list[Hit]:
        from ddgs import DDGS  # noqa: PLC0415 - few runs need it
        from ddgs.exceptions import DDGSException  # noqa: PLC0415

        def ask() -> list[dict[str, Any]]:
            return DDGS(timeout=self._seconds).text(query, max_results=limit, backend="duckduckgo")

        try:
            found = await asyncio.to_thread(ask)
        except DDGSException as error:
            if "No results" in str(error):
                return []
            raise WebFailure("provider_error", f"DuckDuckGo: {type(error).__name__}") from error
        return [Hit(_text(hit, "title"), _text(hit, "href"), _text(hit, "body")) for hit in found[:limit]]

    async def aclose(self) -> None: ...


def _hits(answer: Any, path: tuple[str, ...], description: str, limit: int) -> list[Hit]:
    """Results from an answer of any shape; entries without an address are none."""
    for step in path:
        answer = answer.get(step) if isinstance(answer, dict) else None
    entries = [entry for entry in answer if isinstance(entry, dict)] if isinstance(answer, list) else []
    hits = [Hit(_text(entry, "title"), _text(entry, "url"), _text(entry, description)) for entry in entries]
    return [hit for hit in hits if hit.url][:limit]


def _text(entry: Mapping[str, Any], field: str) -> str:
    value = entry.get(field)
    return value if isinstance(value, str) else ""
