"""A page as text: fetched within bounds, its main content as Markdown."""

import re
from dataclasses import dataclass

from batchrun_runner.web.addresses import AddressRules
from batchrun_runner.web.converting import Converter, decoded
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
        self._converter = Converter()

    async def read(self, url: str) -> Page:
        """Raises WebFailure."""
        async with self._fetcher.within_limits():
            answer = await self._fetcher.fetch(url, _refuses)
            if _is_html(answer):
                title, text = await self._converter.convert(answer.body, answer.url, answer.charset)
                return Page(answer.url, title, text)
            if b"\0" in answer.body:
                raise WebFailure("unsupported_content", "it is no text")
            return Page(answer.url, "", decoded(answer.body, answer.charset))

    async def aclose(self) -> None:
        """Close all connections."""
        await self._fetcher.aclose()


def _refuses(content_type: str) -> str:
    wanted = not content_type or _TEXTS.match(content_type) or content_type in _HTML
    return "" if wanted else f"it is {content_type}, not a text"


def _is_html(answer: Fetched) -> bool:
    if not answer.content_type:
        return answer.body.lstrip()[:15].lower().startswith((b"<!doctype", b"<html"))
    return answer.content_type in _HTML
