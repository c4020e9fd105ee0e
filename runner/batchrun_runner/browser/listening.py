"""A server of connections that all end with it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Accept = Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]
_BROKEN = (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)
"""What a peer that goes away or talks nonsense makes of a connection."""


@asynccontextmanager
async def listening(
    start: Callable[[Accept], Awaitable[asyncio.Server]], handle: Handler
) -> AsyncIterator[asyncio.Server]:
    """The server that `start` makes with what it is given; `handle` gets each connection, which is closed after it."""
    tasks: set[asyncio.Task[None]] = set()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(*_BROKEN):
                await handle(reader, writer)
        finally:
            writer.close()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(one(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await start(accept)
    try:
        yield server
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
