"""Real sandboxes for the tests: the built helper, real sockets, real processes."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from batchrun_api.outcomes import Outcome
from batchrun_runner.sandbox.backend import SandboxLease, SandboxRequest
from batchrun_runner.sandbox.client import SandboxConnection
from batchrun_runner.sandbox.helper import find_sandboxd
from batchrun_runner.sandbox.launched import Launched
from batchrun_runner.sandbox.process import ProcessBackend

NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


@pytest.fixture(scope="session")
def sandboxd() -> Path:
    return find_sandboxd()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short, since a socket's path must be."""
    path = Path(tempfile.mkdtemp(prefix="br-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
async def lease(sandboxd: Path) -> AsyncIterator[SandboxLease]:
    """A sandbox as `batchrun local --sandbox process` makes it."""
    backend = ProcessBackend(helper=sandboxd)
    opened = await backend.open(SandboxRequest(index=0))
    yield opened
    await opened.finish(Outcome.COMPLETED)
    await backend.close()


@pytest.fixture
async def pid1(sandboxd: Path, folder: Path) -> AsyncIterator[SandboxConnection]:
    """A sandbox whose sandboxd is PID 1 of a namespace of its own, as in a container."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("a PID namespace needs root and unshare")
    command = [*NAMESPACE, str(sandboxd), "serve", "--socket", str(folder / "s.sock"), "--once", "--shared-files"]
    launched = Launched(folder, command, {"PATH": os.environ["PATH"], "HOME": str(folder)}, folder)
    connection = await launched.connect(10)
    assert connection.hello.pid1
    yield connection
    await launched.stop()


class RawRunner:
    """The runner's side by hand, to say what the real client never would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / "s.sock"))
        self._listening.listen(1)
        self._listening.settimeout(10)
        self.connection: socket.socket | None = None

    def accept(self) -> dict[str, Any]:
        """The hello of the next sandbox."""
        self.connection, _ = self._listening.accept()
        self.connection.settimeout(10)
        return self.receive()

    def send(self, message: dict[str, Any]) -> None:
        body = orjson.dumps(message)
        self.send_bytes(len(body).to_bytes(4) + body)

    def send_bytes(self, data: bytes) -> None:
        assert self.connection
        self.connection.sendall(data)

    def receive(self) -> dict[str, Any]:
        size = int.from_bytes(self._exactly(4))
        message: dict[str, Any] = orjson.loads(self._exactly(size))
        return message

    def call(self, op: str, args: dict[str, Any], number: int = 1) -> dict[str, Any]:
        self.send({"id": number, "op": op, "args": args})
        return self.receive()

    def hang_up(self) -> None:
        if self.connection:
            self.connection.close()

    def close(self) -> None:
        self.hang_up()
        self._listening.close()

    def _exactly(self, size: int) -> bytes:
        assert self.connection
        data = b""
        while len(data) < size:
            part = self.connection.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return data


@pytest.fixture
def raw_runner(folder: Path) -> Iterator[RawRunner]:
    runner = RawRunner(folder)
    yield runner
    runner.close()


Serve = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def serve(sandboxd: Path, folder: Path) -> Iterator[Serve]:
    """Start `sandboxd serve` on the folder's socket, as PID 1 of a namespace where `pid1=True`."""
    started: list[subprocess.Popen[bytes]] = []

    def start(*options: str, pid1: bool = False, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        if pid1 and (os.geteuid() != 0 or shutil.which("unshare") is None):
            pytest.skip("a PID namespace needs root and unshare")
        command = [str(sandboxd), "serve", "--socket", str(folder / "s.sock"), *options]
        environ = {"PATH": os.environ["PATH"], "HOME": str(folder), **(env or {})}
        process = subprocess.Popen([*(NAMESPACE if pid1 else []), *command], env=environ, cwd=folder)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
