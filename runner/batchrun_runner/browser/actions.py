"""What the browser's tools do in one prompt's session. Arguments were checked by the tools."""

import base64
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from playwright.async_api import Error
from playwright.async_api import TimeoutError as TooSlow

from batchrun_runner.browser.session import Session, first_line
from batchrun_runner.web.errors import WebFailure

if TYPE_CHECKING:
    from playwright.async_api import Locator, Response

Fields = dict[str, Any]
_IMAGES_SCRIPT = """limit => [...document.images].slice(0, limit).map(image => ({
    src: image.currentSrc || image.src, alt: image.alt, width: image.naturalWidth, height: image.naturalHeight}))"""
_SCROLL_SCRIPT = """share => {
    const root = document.scrollingElement || document.documentElement;
    root.scrollBy({top: share * innerHeight, behavior: "instant"});
    const bottom = root.scrollTop + innerHeight >= root.scrollHeight - 1;
    return {top: Math.round(root.scrollTop), height: root.scrollHeight, at_end: bottom};
}"""
_MOST_IMAGES = 100
_MOST_URL_CHARS = 2_000
_LOAD_SECONDS = 5.0


async def navigate(session: Session, given: Mapping[str, Any]) -> Fields:
    """Open an address."""
    url = str(given["url"])
    if urlsplit(url).scheme.lower() not in ("http", "https"):
        raise WebFailure("invalid_arguments", f"only http and https addresses can be opened: {url[:200]!r}")
    page = await session.page_for_navigation()
    try:
        response = await page.goto(url, wait_until="domcontentloaded")
    except TooSlow:
        raise
    except Error:
        await session.failed()
        raise
    with suppress(TooSlow):
        await page.wait_for_load_state("load", timeout=_LOAD_SECONDS * 1000)
    return await _with_snapshot(session, response)


async def snapshot(session: Session, _: Mapping[str, Any]) -> Fields:
    """The current page as its accessibility tree."""
    return await _with_snapshot(session, None)


async def click(session: Session, given: Mapping[str, Any]) -> Fields:
    """Click an element of the newest snapshot."""
    element = await _element(session, str(given["ref"]))
    await _forgiving_close(element.click())
    return await session.settled()


async def type_text(session: Session, given: Mapping[str, Any]) -> Fields:
    """Put text into a field, in place of what it holds."""
    element = await _element(session, str(given["ref"]))
    try:
        await element.fill(str(given["text"]))
    except TooSlow:
        raise
    except Error as error:
        if "Element is not an" in error.message or "cannot be filled" in error.message:
            raise WebFailure("invalid_arguments", f"{given['ref']} takes no text: {first_line(error)}") from error
        raise
    return await session.settled()


async def scroll(session: Session, given: Mapping[str, Any]) -> Fields:
    """Most of a screen up or down."""
    page = session.page
    place = await page.evaluate(_SCROLL_SCRIPT, 0.8 if given["direction"] == "down" else -0.8)
    return {**await session.settled(), "scrolled_to": place}


async def back(session: Session, _: Mapping[str, Any]) -> Fields:
    """The page before; a page that opened by itself is closed."""
    page = session.page
    response = await page.go_back(wait_until="domcontentloaded")
    if response is None and session.pages.are_many and await page.evaluate("() => history.length") == 1:
        await page.close()
    return await session.settled()


async def press(session: Session, given: Mapping[str, Any]) -> Fields:
    """A key, or several at once: Enter, Control+A."""
    page = session.page
    await _forgiving_close(page.keyboard.press(str(given["key"])))
    return await session.settled()


async def images(session: Session, _: Mapping[str, Any]) -> Fields:
    """Pictures of the page."""
    page = session.page
    found: list[Fields] = await page.evaluate(_IMAGES_SCRIPT, _MOST_IMAGES)
    for image in found:
        is_data = str(image["src"]).startswith("data:")
        image["src"] = "(a picture inside the page)" if is_data else str(image["src"])[:_MOST_URL_CHARS]
    return {"url": page.url, "images": found}


async def screenshot(session: Session, _: Mapping[str, Any]) -> Fields:
    """What a person would see now."""
    page = session.page
    data = await page.screenshot(type="png", animations="disabled")
    return {"url": page.url, "png": base64.b64encode(data).decode()}


async def console(session: Session, given: Mapping[str, Any]) -> Fields:
    """What the pages have written to the console, and errors that nobody caught."""
    page = session.page
    messages = list(session.pages.console)
    if given["clear"]:
        session.pages.console.clear()
    return {"url": page.url, "messages": messages}


async def _with_snapshot(session: Session, response: "Response | None") -> Fields:
    fields = await session.settled()
    tree = await session.page.aria_snapshot(mode="ai")
    status = response.status if response is not None else None
    return {**fields, "status": status, "snapshot": tree}


async def _element(session: Session, ref: str) -> "Locator":
    found = session.page.locator(f"aria-ref={ref.removeprefix('@').removeprefix('ref=')}")
    try:
        count = await found.count()
    except TooSlow:
        raise
    except Error:
        count = 0
    if not count:
        raise WebFailure("no_match", f"the page has no element {ref}: take a new snapshot, its refs count")
    return found


async def _forgiving_close(acting: Awaitable[None]) -> None:
    """An action may close its own page: that is what it did, not a failure. A crash shows in what follows."""
    try:
        await acting
    except TooSlow:
        raise
    except Error as error:
        if "has been closed" not in error.message:
            raise


ACTIONS: dict[str, Callable[[Session, Mapping[str, Any]], Awaitable[Fields]]] = {
    "navigate": navigate,
    "snapshot": snapshot,
    "click": click,
    "type": type_text,
    "scroll": scroll,
    "back": back,
    "press": press,
    "get_images": images,
    "screenshot": screenshot,
    "console": console,
}
"""By the word that a request names."""
