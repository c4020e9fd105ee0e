"""The service: listens on a Unix socket; each connection is one prompt's browser.

A request is one line of JSON, `{"action", "arguments"}`; so is its answer, `{"result"}` or `{"kind", "message"}`.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from playwright.async_api import Error, async_playwright

from batchrun_runner.browser.actions import ACTIONS
from batchrun_runner.browser.chromium import launch, what_is_missing
from batchrun_runner.browser.listening import Accept, listening
from batchrun_runner.browser.protocol import LINE_BYTES
from batchrun_runner.browser.proxy import GuardedProxy, Passport
from batchrun_runner.browser.session import Session
from batchrun_runner.text import fault_of_ours
from batchrun_runner.web.addresses import AddressRules
from batchrun_runner.web.errors import WebFailure
from batchrun_runner.web.transport import Resolver, resolve

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext


class BrowserService:
    """Runs one Chromium for all sessions, and starts it again when it is gone."""

    def __init__(self, proxy: GuardedProxy) -> None:
        self.proxy = proxy
        self._stack = AsyncExitStack()
        self._browser: Browser | None = None
        self._starting = asyncio.Lock()

    async def new_context(self, passport: Passport) -> "BrowserContext":
        """With the passport's way to the network. Raises WebFailure where no browser can be started."""
        async with self._starting:
            if self._browser is not None:
                with suppress(Error):
                    return await self._context(self._browser, passport)
            await self.aclose()
            self._browser = await self._started()
            return await self._context(self._browser, passport)

    async def _context(self, browser: "Browser", passport: Passport) -> "BrowserContext":
        return await browser.new_context(
            proxy={"server": self.proxy.url, "username": passport.username, "password": passport.password},
            accept_downloads=False,
            viewport={"width": 1280, "height": 720},
        )

    async def aclose(self) -> None:
        """End Chromium and Playwright's driver."""
        stack, self._stack, self._browser = self._stack, AsyncExitStack(), None
        # Whatever is wrong with a browser that died, there is nothing to save in it.
        with suppress(Exception):
            await stack.aclose()

    async def _started(self) -> "Browser":
        try:
            playwright = await self._stack.enter_async_context(async_playwright())
            browser = await launch(playwright, self.proxy.url, os.environ)
        except Exception as error:
            await self.aclose()
            missing = what_is_missing(os.environ)
            message = f"the browser does not start: {missing or str(error)[:1000]}"
            raise WebFailure("browser_lost", message) from error
        self._stack.push_async_callback(browser.close)
        return browser


async def _serve(session: Session, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Requests in their order. A runner that goes away in the midst of one ends it."""
    while line := await reader.readline():
        working = asyncio.ensure_future(_answer(session, line))
        watching = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                return
            writer.write(orjson.dumps(working.result(), option=orjson.OPT_APPEND_NEWLINE))
        finally:
            for task in (working, watching):
                task.cancel()
            await asyncio.gather(working, watching, return_exceptions=True)
        await writer.drain()


async def _answer(session: Session, line: bytes) -> dict[str, Any]:
    try:
        request = orjson.loads(line)
        return {"result": await session.call(ACTIONS[request["action"]], request["arguments"])}
    except WebFailure as error:
        return {"kind": error.kind, "message": error.message}
    except Exception as error:
        await session.aclose()
        return {"kind": "internal", "message": fault_of_ours(error)}


@asynccontextmanager
async def open_service(
    path: Path, allowed_ranges: Sequence[str], seconds: int, resolver: Resolver = resolve
) -> AsyncIterator[None]:
    """It listens at `path` while the context is open; `seconds`: for one action. Raises ValueError for no range."""
    async with GuardedProxy(AddressRules.of(allowed_ranges), resolver).open() as proxy, AsyncExitStack() as stack:
        service = BrowserService(proxy)
        stack.push_async_callback(service.aclose)

        def start(accept: Accept) -> Awaitable[asyncio.Server]:
            return asyncio.start_unix_server(accept, path, limit=LINE_BYTES)

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            session = Session(service, seconds)
            try:
                await _serve(session, reader, writer)
            finally:
                await session.aclose()

        await asyncio.to_thread(path.unlink, missing_ok=True)
        await stack.enter_async_context(listening(start, handle))
        yield


async def _until_ended(path: Path, allowed_ranges: Sequence[str], seconds: int, *, ends_with_stdin: bool) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    if ends_with_stdin:
        # A parent that is killed takes its end of the pipe along.
        loop.add_reader(0, ended.set)
    async with open_service(path, allowed_ranges, seconds):
        await ended.wait()


def run_service(path: Path, allowed_ranges: Sequence[str], seconds: int, *, ends_with_stdin: bool) -> None:
    """The service as a process of its own, until SIGTERM or SIGINT."""
    asyncio.run(_until_ended(path, allowed_ranges, seconds, ends_with_stdin=ends_with_stdin))
