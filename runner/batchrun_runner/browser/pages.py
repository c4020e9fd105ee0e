"""What happens in a prompt's browser by itself: dialogs, popups, downloads, crashes, messages of the console."""

import asyncio
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from playwright.async_api import Error

from batchrun_api.text import shortened_bytes

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, ConsoleMessage, Dialog, Download, Frame, Page, Request, Response

_MOST_PAGES = 8
_MOST_EVENTS = 20
_MOST_MESSAGES = 200
_TEXT_BYTES = 500


@dataclass(frozen=True, slots=True)
class Document:
    """A page's own document, as it was asked for. `status` None: it did not come."""

    url: str
    status: int | None
    failure: str = ""


class Pages:
    """The open pages of one context; the newest is the one that tools work on."""

    def __init__(self, context: "BrowserContext") -> None:
        self._open: list[Page] = []
        self._events: deque[str] = deque(maxlen=_MOST_EVENTS)
        self._tasks: set[asyncio.Task[None]] = set()
        self.console: deque[dict[str, str]] = deque(maxlen=_MOST_MESSAGES)
        self.crashed = asyncio.Event()
        """A page's process has ended, or the browser's."""
        self.document: Document | None = None
        """What a page asked for last."""
        self.arrived = asyncio.Event()
        """No page is on its way to another document."""
        self.arrived.set()
        context.on("close", self._crashed)
        context.on("page", self._opened)
        context.on("request", self._leaving)
        context.on("requestfailed", self._not_leaving)
        context.on("response", self._answered)

    @property
    def current(self) -> "Page | None":
        """The newest page that is open; None: nothing was opened yet."""
        return self._open[-1] if self._open else None

    @property
    def are_many(self) -> bool:
        """Whether closing the current one leaves another."""
        return len(self._open) > 1

    def take_events(self) -> list[str]:
        """What happened since the last time, in words."""
        events = list(self._events)
        self._events.clear()
        return events

    def _opened(self, page: "Page") -> None:
        if self._open:
            self._events.append("a new page was opened; it is the current one now, and browser_back closes it")
        self._open.append(page)
        # It is told of once its first document has come.
        self.arrived.set()
        page.on("close", self._closed)
        page.on("framenavigated", self._navigated)
        page.on("crash", self._crashed)
        page.on("dialog", self._dialog)
        page.on("download", self._download)
        page.on("console", self._said)
        page.on("pageerror", self._failed)
        if len(self._open) > _MOST_PAGES:
            self._later(self._open[0].close())

    def _closed(self, page: "Page") -> None:
        self.arrived.set()
        if page in self._open:
            self._open.remove(page)
            if self._open and not self.crashed.is_set():
                self._events.append("a page was closed; the one before it is the current one now")

    def _crashed(self, _: object) -> None:
        self.crashed.set()

    def _leaving(self, request: "Request") -> None:
        if _is_of_a_page(request):
            self.arrived.clear()

    def _not_leaving(self, request: "Request") -> None:
        if _is_of_a_page(request):
            self.document = Document(request.url, None, request.failure or "")
            self.arrived.set()

    def _answered(self, response: "Response") -> None:
        if _is_of_a_page(response.request):
            self.document = Document(response.url, response.status)

    def _navigated(self, frame: "Frame") -> None:
        if frame.parent_frame is None:
            self.arrived.set()

    def _dialog(self, dialog: "Dialog") -> None:
        text = shortened_bytes(dialog.message, _TEXT_BYTES)
        if dialog.type != "beforeunload":
            answer = f" with {dialog.default_value!r}" if dialog.type == "prompt" else ""
            self._events.append(f"the page opened the dialog ({dialog.type}) {text!r}, which was accepted{answer}")
        self._later(dialog.accept(dialog.default_value) if dialog.type == "prompt" else dialog.accept())

    def _download(self, download: "Download") -> None:
        name = shortened_bytes(download.suggested_filename, _TEXT_BYTES)
        self._events.append(
            f"the page offered the download {name!r}, which was refused: nothing can be downloaded here"
        )

    def _said(self, message: "ConsoleMessage") -> None:
        self.console.append({"type": message.type, "text": shortened_bytes(message.text, _TEXT_BYTES)})

    def _failed(self, error: Error) -> None:
        self.console.append({"type": "uncaught error", "text": shortened_bytes(str(error), _TEXT_BYTES)})

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        async def done() -> None:
            with suppress(Error):
                await work

        task = asyncio.create_task(done())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _is_of_a_page(request: "Request") -> bool:
    """Whether it asks for the document of a page, not of a frame inside one."""
    if not request.is_navigation_request():
        return False
    try:
        return request.frame.parent_frame is None
    except Error:
        return True  # a page so new that it has no frame yet
