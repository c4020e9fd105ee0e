"""A page as text: fetched within bounds, its main content as Markdown."""

import asyncio
import re
from dataclasses import dataclass
from typing import Any

import httpx2

from batchrun_runner.web.addresses import AddressRules
from batchrun_runner.web.errors import WebFailure
from batchrun_runner.web.transport import AddressRefused, GuardedTransport, Resolver, resolve

USER_AGENT = "batchrun (an agent's page reader)"
_TEXTS = re.compile(r"^(text/.*|application/(json|xml|javascript|x-yaml|yaml)|application/.*\+(json|xml))$")
_HTML = frozenset({"text/html", "application/xhtml+xml"})


@dataclass(frozen=True, slots=True)
class PageLimits:
    """Bounds of one page. `max_bytes` counts after unpacking."""

    seconds: float = 30.0
    max_bytes: int = 10 * 1024 * 1024
    redirects: int = 5


@dataclass(frozen=True, slots=True)
class Page:
    """What a page says."""

    url: str
    """Where it was found in the end."""
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class _Answer:
    url: str
    content_type: str
    charset: str
    body: bytes


class PageReader:
    """Reads pages for all prompts of a process. Close it."""

    def __init__(self, rules: AddressRules, limits: PageLimits = PageLimits(), resolver: Resolver = resolve) -> None:
        self._limits = limits
        self._client = httpx2.AsyncClient(
            transport=GuardedTransport(rules, resolver),
            follow_redirects=True,
            max_redirects=limits.redirects,
            headers={"User-Agent": USER_AGENT, "Accept": "text/html, text/*;q=0.9, application/json;q=0.8, */*;q=0.1"},
            timeout=limits.seconds,
            trust_env=False,
        )

    async def read(self, url: str) -> Page:
        """Raises WebFailure."""
        limits = self._limits
        try:
            async with asyncio.timeout(limits.seconds):
                answer = await self._fetch(url)
                return await asyncio.to_thread(_page, answer)
        except TimeoutError:
            raise WebFailure("timeout", f"not read within {limits.seconds:g} s") from None
        except AddressRefused as error:
            raise WebFailure("address_refused", str(error)) from error
        except httpx2.TooManyRedirects:
            raise WebFailure("unreachable", f"more than {limits.redirects} redirects") from None
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, ValueError) as error:
            raise WebFailure("invalid_arguments", f"only http and https addresses can be read: {error}") from error
        except httpx2.TransportError as error:
            raise WebFailure("unreachable", f"{type(error).__name__}: {error}") from error
        except httpx2.DecodingError as error:
            raise WebFailure("unsupported_content", f"its compression is broken: {error}") from error

    async def _fetch(self, url: str) -> _Answer:
        async with self._client.stream("GET", url) as response:
            # A cookie of one prompt's page is no business of the next prompt's.
            self._client.cookies.clear()
            if response.status_code >= 400:
                raise WebFailure("http_status", f"the server answers {response.status_code} {response.reason_phrase}")
            content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if content_type and not _TEXTS.match(content_type) and content_type not in _HTML:
                raise WebFailure("unsupported_content", f"it is {content_type}, not a text")
            body = bytearray()
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > self._limits.max_bytes:
                    raise WebFailure("too_large", f"it has more than {self._limits.max_bytes >> 20} MiB")
            return _Answer(str(response.url), content_type, response.charset_encoding or "", bytes(body))

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()


def _page(answer: _Answer) -> Page:
    looks_like_html = not answer.content_type and answer.body.lstrip()[:15].lower().startswith((b"<!doctype", b"<html"))
    if answer.content_type in _HTML or looks_like_html:
        return _html_page(answer)
    if b"\0" in answer.body:
        raise WebFailure("unsupported_content", "it is no text")
    return Page(answer.url, "", _decoded(answer))


def _html_page(answer: _Answer) -> Page:
    # Loading it takes a third of a second, and few runs read pages.
    import trafilatura  # noqa: PLC0415

    html: Any = _decoded(answer) if answer.charset else answer.body
    text = trafilatura.extract(
        html, url=answer.url, output_format="markdown", include_links=True, include_tables=True, favor_recall=True
    )
    metadata = trafilatura.extract_metadata(html)
    title = (metadata.title if metadata else "") or ""
    return Page(answer.url, title, text or trafilatura.html2txt(html) or "")


def _decoded(answer: _Answer) -> str:
    try:
        return answer.body.decode(answer.charset or "utf-8", "replace")
    except LookupError:
        return answer.body.decode("utf-8", "replace")
