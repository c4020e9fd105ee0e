"""A program that was started to connect back as a sandbox: sandboxd itself, or a container engine's client."""

import asyncio
from asyncio.subprocess import Process
from contextlib import suppress
from pathlib import Path
from typing import Any

from batchrun_api.outcomes import Reason
from batchrun_runner.sandbox.client import SandboxConnection
from batchrun_runner.sandbox.errors import SandboxUnavailable
from batchrun_runner.sandbox.listener import SandboxListener
from batchrun_runner.text import one_line

_STOP_SECONDS = 5.0
_SHOWN_CHARS = 300


class Launched:
    """The program's life: started by `connect`, over after `stop`. `folder` holds its socket and its log."""

    def __init__(self, folder: Path, command: list[str], environ: dict[str, str] | None, cwd: Path | None) -> None:
        self.folder = folder
        self._command = command
        self._environ = environ
        self._cwd = cwd
        self._listener = SandboxListener(folder)
        self._process: Process | None = None
        self._connection: SandboxConnection | None = None
        self._log = folder / "sandboxd.log"

    async def connect(self, deadline_seconds: float) -> SandboxConnection:
        """Start it and wait for its hello. Raises SandboxUnavailable with its own words when it ends or is late."""
        accepting = asyncio.create_task(self._listener.accept())
        waiting: set[asyncio.Task[Any]] = {accepting}
        try:
            with self._log.open("wb") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *self._command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self._environ,
                    cwd=self._cwd,
                    start_new_session=True,
                )
            ended = asyncio.create_task(self._process.wait())
            waiting.add(ended)
            await asyncio.wait(waiting, timeout=deadline_seconds, return_when=asyncio.FIRST_COMPLETED)
            if accepting.done():
                self._connection = await accepting
                return self._connection
            why = f"it ended with {ended.result()}" if ended.done() else f"it did not connect in {deadline_seconds:g} s"
            raise SandboxUnavailable(Reason.SANDBOX_UNAVAILABLE, f"{why}: {self.words()}")
        except OSError as error:
            raise SandboxUnavailable(Reason.SANDBOX_UNAVAILABLE, f"it does not start: {error}") from error
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)

    def words(self) -> str:
        """What the program printed, for people, in one line."""
        with suppress(OSError):
            return one_line(self._log.read_text(errors="replace"), _SHOWN_CHARS) or "it said nothing"
        return "it said nothing"

    async def exit_code(self) -> int | None:
        """How the program ended; None: it goes on all the same."""
        if self._process is None:
            return None
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS):
                return await self._process.wait()
        return None

    async def stop(self) -> None:
        """End the connection, which is sandboxd's sign to end all that it started; a late one is killed."""
        if self._connection is not None:
            await self._connection.close()
        if self._process is None:
            return
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self._process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
