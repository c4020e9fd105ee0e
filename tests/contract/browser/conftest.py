"""The browser's service with real Chromium, and a site for it."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.cluster.harness.lab import Lab

from batchrun_runner.browser.client import BrowserConnection
from batchrun_runner.browser.server import open_service
from batchrun_runner.web.errors import WebFailure
from batchrun_runner.web.transport import resolve

SECONDS = 4
Resolve = Callable[[str, int], Awaitable[list[str]]]


@dataclass
class Caller:
    """One prompt's browser."""

    connection: BrowserConnection

    async def __call__(self, action: str, **arguments: Any) -> dict[str, Any]:
        return await self.connection.call(action, arguments)

    async def failing(self, action: str, **arguments: Any) -> WebFailure:
        """The failure that this call must be."""
        with pytest.raises(WebFailure) as caught:
            await self.connection.call(action, arguments)
        return caught.value


@dataclass
class Service:
    """Makes browsers; names that are in `names` have those addresses, each answer used once but for the last."""

    stack: AsyncExitStack
    socket: Path
    names: dict[str, list[list[str]]]
    resolved: list[str]

    def browser(self) -> Caller:
        async def socket() -> Path:
            return self.socket

        connection = BrowserConnection(socket, SECONDS)
        self.stack.push_async_callback(connection.aclose)
        return Caller(connection)


@pytest_asyncio.fixture
async def service() -> AsyncIterator[Service]:
    names: dict[str, list[list[str]]] = {}
    resolved: list[str] = []

    async def resolver(host: str, port: int) -> list[str]:
        resolved.append(host)
        if host not in names:
            return await resolve(host, port)
        answers = names[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    with tempfile.TemporaryDirectory(prefix="batchrun-test-") as folder:
        socket = Path(folder) / "s.sock"
        async with open_service(socket, ["127.0.0.1/32"], SECONDS, resolver), AsyncExitStack() as stack:
            yield Service(stack, socket, names, resolved)


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab("127.0.0.1") as site:
        yield site
