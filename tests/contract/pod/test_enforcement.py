"""The probe of the pod's network against real sockets: what an engine does to a connection, and what it does not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

import pytest

from batchrun_runner.pod.enforcement import (
    ENV_HOST,
    ENV_PORT,
    Answer,
    NetworkNotEnforced,
    Patience,
    ask,
    wait_until_enforced,
)
from batchrun_runner.stopping import Stop

QUICK = Patience(total_seconds=0.4, try_seconds=0.3, pause_seconds=0.05)


class ApiServer:
    """Accepts connections, counts them, and can go away."""

    def __init__(self) -> None:
        self.connections = 0
        self.asked = asyncio.Event()
        self.closes_after: int | None = None
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    def _serve(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        self.connections += 1
        self.asked.set()
        if self.connections == self.closes_after:
            self.stop()

    @property
    def environ(self) -> dict[str, str]:
        return {ENV_HOST: "127.0.0.1", ENV_PORT: str(self.port)}


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    made = ApiServer()
    await made.start()
    yield made
    made.stop()


@pytest.fixture
def silent() -> Iterator[dict[str, str]]:
    """A port whose packets are dropped: its queue of connections is full."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        yield {ENV_HOST: "127.0.0.1", ENV_PORT: str(listener.getsockname()[1])}


async def test_an_api_server_that_answers_is_a_policy_that_nobody_enforces(server: ApiServer) -> None:
    with pytest.raises(NetworkNotEnforced, match=rf"127.0.0.1:{server.port} still answers"):
        await wait_until_enforced(server.environ, Stop(), QUICK)
    assert server.connections > 3, "it was asked once and believed"


async def test_a_refused_connection_is_enough(server: ApiServer) -> None:
    server.stop()
    await asyncio.wait_for(wait_until_enforced(server.environ, Stop(), QUICK), QUICK.try_seconds)


async def test_an_engine_that_comes_late_is_waited_for(server: ApiServer) -> None:
    server.closes_after = 3
    await wait_until_enforced(server.environ, Stop(), Patience(total_seconds=20, pause_seconds=0.02))
    assert server.connections == 3


async def test_two_silent_tries_are_needed(silent: dict[str, str]) -> None:
    assert await ask("127.0.0.1", int(silent[ENV_PORT]), 0.2) is Answer.SILENT
    start = asyncio.get_running_loop().time()
    await wait_until_enforced(silent, Stop(), QUICK)
    assert asyncio.get_running_loop().time() - start >= 2 * QUICK.try_seconds - 0.05


@pytest.mark.parametrize("environ", [{}, {ENV_HOST: "10.96.0.1"}, {ENV_HOST: "10.96.0.1", ENV_PORT: "https"}])
async def test_where_there_is_nothing_to_try_nothing_is_believed(environ: dict[str, str]) -> None:
    with pytest.raises(NetworkNotEnforced, match="cannot be tried: KUBERNETES_SERVICE_HOST"):
        await wait_until_enforced(environ, Stop(), QUICK)


async def test_an_error_of_ours_proves_nothing() -> None:
    """A name that cannot be looked up."""
    assert await ask("not an address", 443, 1) is Answer.UNKNOWN
    with pytest.raises(NetworkNotEnforced, match="can neither be reached nor found blocked"):
        await wait_until_enforced({ENV_HOST: "not an address", ENV_PORT: "443"}, Stop(), QUICK)


async def test_a_pod_that_is_asked_to_stop_waits_for_no_engine(server: ApiServer) -> None:
    stop = Stop()
    waiting = asyncio.create_task(wait_until_enforced(server.environ, stop, Patience(total_seconds=60)))
    await asyncio.wait_for(server.asked.wait(), 10)
    stop.now("SIGTERM")
    await asyncio.wait_for(waiting, 2)
