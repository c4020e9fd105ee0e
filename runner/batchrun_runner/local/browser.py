"""The browser's service on one machine: a child process, started when a prompt first wants it."""

import asyncio
import os
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Self

from batchrun_api.names import ENV_IN_POD, SOCKET_NAME
from batchrun_api.spec import BatchRunSpec
from batchrun_runner.browser.chromium import ENV_CHROMIUM

_END_SECONDS = 10.0
SERVICE = (sys.executable, "-P", "-c", "from batchrun_runner.main import run; run()", "browser")
"""The command, without its options."""


class BrowserProcess:
    """The service, started again where it has died; it ends with the context."""

    def __init__(self, spec: BatchRunSpec) -> None:
        self._ranges = spec.tools.web.allowed_ranges if spec.tools.web else []
        self._seconds = spec.tools.browser.action_timeout_seconds if spec.tools.browser else 0
        self._folder: Path | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        process, folder = self._process, self._folder
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.terminate()
            try:
                async with asyncio.timeout(_END_SECONDS):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        if folder is not None:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def socket(self) -> Path:
        """Where it listens, or will in a moment."""
        async with self._starting:
            if self._folder is None:
                # Paths of sockets are short, those of output folders may be long.
                self._folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="batchrun-browser-", dir="/tmp"))  # noqa: S108
            path = self._folder / SOCKET_NAME
            if self._process is None or self._process.returncode is not None:
                words = ["--end-with-stdin", "--socket", str(path), "--action-timeout", str(self._seconds)]
                words += [word for cidr in self._ranges for word in ("--allow", cidr)]
                # A session of its own: Ctrl-C in the terminal is the run's to handle.
                self._process = await asyncio.create_subprocess_exec(
                    *SERVICE,
                    *words,
                    env=_without_keys(),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.DEVNULL,
                    start_new_session=True,
                )
            return path


def _without_keys() -> dict[str, str]:
    """A process that runs foreign pages gets nothing but what it needs."""
    wanted = ("PATH", "HOME", "LANG", "TMPDIR", "XDG_CACHE_HOME", ENV_CHROMIUM, ENV_IN_POD)
    return {name: os.environ[name] for name in wanted if name in os.environ}
