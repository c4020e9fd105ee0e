"""One prompt's browser: its context, begun with the first call and begun anew after a crash."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from urllib.parse import urlsplit

from playwright.async_api import Error
from playwright.async_api import TimeoutError as TooSlow

from batchrun_runner.browser.pages import Pages
from batchrun_runner.browser.proxy import REFUSALS, GuardedProxy, Passport, place
from batchrun_runner.web.errors import WebFailure
from batchrun_runner.web.transport import PORTS

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

T = TypeVar("T")
_MOST_ASKED = 20
_BEYOND_SECONDS = 5
"""What a page gets beyond the time of an action before it is closed."""
_SETTLE_SECONDS = 5.0
"""How long a page is waited for that has its document and goes on loading."""
_ERROR_PAGE_SECONDS = 2.0
ERROR_PAGE = "chrome-error://chromewebdata/"
_TURN_SCRIPT = "() => new Promise(done => setTimeout(done, 100))"
"""A page that an action set going has begun to navigate by then."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A context in use."""

    context: "BrowserContext"
    pages: Pages
    passport: Passport


class Browsers(Protocol):
    """Who runs Chromium."""

    proxy: GuardedProxy

    async def new_context(self, passport: Passport) -> "BrowserContext":
        """In a browser that is started when there is none. Raises WebFailure."""
        ...


class Session:
    """One prompt's pages. Close it; it can be used again after that."""

    def __init__(self, browsers: Browsers, seconds: int) -> None:
        """`seconds`: for one navigation or action."""
        self._browsers = browsers
        self._stack = AsyncExitStack()
        self._opened: Opened | None = None
        self.seconds = seconds

    async def call(self, action: Callable[["Session", Mapping[str, Any]], Awaitable[T]], given: Mapping[str, Any]) -> T:
        """What an action gives. Raises WebFailure; the session can be used after each of them."""
        try:
            async with asyncio.timeout(self.seconds + _BEYOND_SECONDS) as limit:
                return await action(self, given)
        except TooSlow:
            raise WebFailure("timeout", f"the page did not get there within {self.seconds} s") from None
        except TimeoutError:
            await self.aclose()
            if not limit.expired():
                raise
            message = f"the page answered nothing for {self.seconds + _BEYOND_SECONDS} s and was closed"
            raise WebFailure("timeout", message) from None
        except Error as error:
            if await self._is_lost():
                await self.aclose()
                message = f"the page or the browser crashed, and all that was open is gone: {first_line(error)}"
                raise WebFailure("browser_lost", message) from error
            raise _failure(error) from error

    @property
    def pages(self) -> Pages:
        """All pages. Raises WebFailure where none is open."""
        if self._opened is not None and self._opened.pages.crashed.is_set():
            raise WebFailure("browser_lost", "the page or the browser crashed: call browser_navigate to begin anew")
        if self._opened is None or self._opened.pages.current is None:
            raise WebFailure("no_page", "no page is open: call browser_navigate first")
        return self._opened.pages

    @property
    def page(self) -> "Page":
        """The current page. Raises WebFailure where nothing was opened yet."""
        page = self.pages.current
        if page is None:
            raise WebFailure("no_page", "no page is open: call browser_navigate first")
        return page

    async def page_for_navigation(self) -> "Page":
        """The current page; an empty one where nothing is open. What happened before is forgotten."""
        if self._opened is not None and await self._is_lost():
            await self.aclose()
        opened = self._opened = self._opened or await self._begun()
        page = opened.pages.current or await opened.context.new_page()
        if page.url == ERROR_PAGE:
            # So that the next page of this kind can be told from this one.
            with suppress(Error):
                await page.goto("about:blank")
        self._events()
        opened.pages.document = None
        return page

    async def failed(self) -> None:
        """After a navigation that failed. Raises WebFailure where the proxy knows why."""
        # The page that says so comes a moment later, and would interrupt the next navigation.
        with suppress(TooSlow):
            await self.page.wait_for_url(ERROR_PAGE, timeout=_ERROR_PAGE_SECONDS * 1000)
        self._raise_if_refused()

    async def settled(self) -> dict[str, Any]:
        """After an action: where the page is now and what happened. Raises WebFailure for a page that is refused."""
        with suppress(Error):
            await self.page.evaluate(_TURN_SCRIPT)
        with suppress(TimeoutError):
            async with asyncio.timeout(self.seconds):
                await self.pages.arrived.wait()
        page = self.page
        await page.wait_for_load_state("domcontentloaded")
        with suppress(TooSlow):
            await page.wait_for_load_state("load", timeout=_SETTLE_SECONDS * 1000)
        self._raise_if_refused()
        return {"url": page.url, "title": await page.title(), "events": self._events() or None}

    def _raise_if_refused(self) -> None:
        """Raises WebFailure where the page's own document, not something in it, could not be had."""
        if self._opened is None:
            return
        document, self._opened.pages.document = self._opened.pages.document, None
        if document is None or document.status not in (None, *REFUSALS):
            return
        parts = urlsplit(document.url)
        where = place(parts.hostname or "", parts.port or PORTS.get(parts.scheme, 0))
        if failure := self._opened.passport.turned_away.pop(where, None):
            raise failure
        if self.page.url.startswith(ERROR_PAGE):
            raise WebFailure("unreachable", f"{document.url[:200]} cannot be reached: {document.failure}")

    async def aclose(self) -> None:
        """End the context; with it go cookies and storage."""
        stack, self._stack = self._stack, AsyncExitStack()
        self._opened = None
        with suppress(Error, TimeoutError):
            async with asyncio.timeout(_BEYOND_SECONDS):
                await stack.aclose()

    def _events(self) -> list[str]:
        if self._opened is None:
            return []
        away = self._opened.passport.turned_away
        refused = [(where, failure) for where, failure in away.items() if failure.kind == "address_refused"]
        asked = [f"the page asked for {where}: {failure.message}" for where, failure in refused]
        away.clear()
        return [*self._opened.pages.take_events(), *asked[:_MOST_ASKED]]

    async def _begun(self) -> Opened:
        passport = self._stack.enter_context(self._browsers.proxy.admitted())
        context = await self._browsers.new_context(passport)
        self._stack.push_async_callback(context.close)
        context.set_default_timeout(self.seconds * 1000)
        return Opened(context, Pages(context), passport)

    async def _is_lost(self) -> bool:
        if self._opened is None or self._opened.pages.crashed.is_set():
            return True
        try:
            await self._opened.context.cookies("http://localhost/")
        except Error:
            return True
        return False


def _failure(error: Error) -> WebFailure:
    """In the closed set; the messages of Chromium's network are stable names (net::ERR_...)."""
    text = first_line(error)
    if "net::ERR_ABORTED" in text or "Download is starting" in text:
        return WebFailure("unsupported_content", "this address gives no page (a download, or nothing at all)")
    if "net::ERR_" in text or "NS_ERROR" in text:
        return WebFailure("unreachable", text)
    if "Unknown key" in text:
        return WebFailure("invalid_arguments", text)
    return WebFailure("provider_error", text)


def first_line(error: Error) -> str:
    """Without the log of attempts that Playwright adds."""
    return error.message.split("\n", 1)[0][:500]
