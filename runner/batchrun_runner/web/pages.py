"""A page as text: fetched within bounds, its main content as Markdown."""

import asyncio
import re
from dataclasses import dataclass
from typing import Any

from batchrun_runner.web.addresses import AddressRules
from batchrun_runner.web.errors import WebFailure
from batchrun_runner.web.fetching import USUAL_LIMITS, Fetched, Fetcher, FetchLimits
from batchrun_runner.web.transport import Resolver, resolve

PageLimits = FetchLimits
_ACCEPT = "text/html, text/*;q=0.9, application/json;q=0.8, */*;q=0.1"
_TEXTS = re.compile(r"^(text/.*|application/(json|xml|javascript|x-yaml|yaml)|application/.*\+(json|xml))$")
_HTML = frozenset({"text/html", "application/xhtml+xml"})


@dataclass(frozen=True, slots=True)
class Page:
    """What a page says."""

    url: str
    """Where it was found in the end."""
    title: str
    text: str


class PageReader:
    """Reads pages for all prompts of a process. Close it."""

    def __init__(self, rules: AddressRules, limits: PageLimits = USUAL_LIMITS, resolver: Resolver = resolve) -> None:
        self._fetcher = Fetcher(rules, limits, _ACCEPT, resolver)

    async def read(self, url: str) -> Page:
        """Raises WebFailure."""
        async with self._fetcher.within_limits():
            return await asyncio.to_thread(_page, await self._fetcher.fetch(url, _refuses))

    async def aclose(self) -> None:
        """Close all connections."""
        await self._fetcher.aclose()


def _refuses(content_type: str) -> str:
    wanted = not content_type or _TEXTS.match(content_type) or content_type in _HTML
    return "" if wanted else f"it is {content_type}, not a text"


def _page(answer: Fetched) -> Page:
    looks_like_html = not answer.content_type and answer.body.lstrip()[:15].lower().startswith((b"<!doctype", b"<html"))
    if answer.content_type in _HTML or looks_like_html:
        return _html_page(answer)
    if b"\0" in answer.body:
        raise WebFailure("unsupported_content", "it is no text")
    return Page(answer.url, "", _decoded(answer))


def _html_page(answer: Fetched) -> Page:
    # Loading it takes a third of a second, and few runs read pages.
    import trafilatura  # noqa: PLC0415

    html: Any = _decoded(answer) if answer.charset else answer.body
    text = trafilatura.extract(
        html, url=answer.url, output_format="markdown", include_links=True, include_tables=True, favor_recall=True
    )
    metadata = trafilatura.extract_metadata(html)
    title = (metadata.title if metadata else "") or ""
    return Page(answer.url, title, text or trafilatura.html2txt(html) or "")


def _decoded(answer: Fetched) -> str:
    try:
        return answer.body.decode(answer.charset or "utf-8", "replace")
    except LookupError:
        return answer.body.decode("utf-8", "replace")
