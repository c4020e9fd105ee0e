"""`SandboxListener`: one unix socket in a folder of its own, for one sandbox, open only while nobody is connected."""

import asyncio
import socket
from pathlib import Path

from pydantic import ValidationError

from batchrun_api.messages import sandbox_message
from batchrun_api.names import SOCKET_NAME
from batchrun_api.outcomes import Outcome, Reason
from batchrun_runner.sandbox.client import MARGIN_SECONDS, SandboxConnection
from batchrun_runner.sandbox.errors import SandboxUnavailable
from batchrun_runner.sandbox.messages import Hello
from batchrun_runner.sandbox.protocol import PROTOCOL_VERSION, FrameError, read_frame

HELLO_SECONDS = 10.0
_READ_AHEAD_BYTES = 1024 * 1024
_MAX_SOCKET_PATH_BYTES = 107
_ANY_UID_MAY_CONNECT = 0o666
_ANY_UID_MAY_ENTER = 0o755
_DONE_NAME = "done"


class SandboxListener:
    """Waits for one sandbox at a time at `folder/s.sock`. `done` beside it tells a late sandbox to go away."""

    def __init__(self, folder: Path, *, margin_seconds: float = MARGIN_SECONDS) -> None:
        self.folder = folder
        self.socket_path = folder / SOCKET_NAME
        if len(bytes(self.socket_path)) > _MAX_SOCKET_PATH_BYTES:
            raise ValueError(f"{self.socket_path} is too long for a unix socket, use a shorter folder")
        self._margin_seconds = margin_seconds

    async def accept(self) -> SandboxConnection:
        """The next sandbox that says hello, whenever it comes; whoever connects without a hello is sent away.

        Raises SandboxUnavailable when it speaks another version of the protocol.
        """
        while True:
            reader, writer = await self._accept_one()
            try:
                async with asyncio.timeout(HELLO_SECONDS):
                    message = await read_frame(reader)
                hello = _check_hello(message)
            except (TimeoutError, EOFError, OSError, FrameError):
                writer.close()
                continue
            except BaseException:
                writer.close()
                raise
            return SandboxConnection(reader, writer, hello, margin_seconds=self._margin_seconds)

    def write_done(self, outcome: Outcome, reason: Reason | None = None) -> None:
        """Leave the outcome for a sandbox that comes back after its prompt is over; whole or not at all."""
        temporary = self.folder / f".{_DONE_NAME}"
        temporary.write_text(sandbox_message(outcome, reason))
        temporary.chmod(0o644)
        temporary.replace(self.folder / _DONE_NAME)

    def is_done(self) -> bool:
        """Whether this sandbox's prompt was over already, in this life of the runner or an earlier one."""
        return (self.folder / _DONE_NAME).exists()

    async def _accept_one(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Exactly one connection: the socket is closed and gone as soon as it is there."""
        self.folder.mkdir(mode=_ANY_UID_MAY_ENTER, parents=True, exist_ok=True)
        self.socket_path.unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.setblocking(False)
            listening.bind(str(self.socket_path))
            self.socket_path.chmod(_ANY_UID_MAY_CONNECT)
            listening.listen(1)
            try:
                accepted, _ = await asyncio.get_running_loop().sock_accept(listening)
            finally:
                self.socket_path.unlink(missing_ok=True)
        return await asyncio.open_unix_connection(sock=accepted, limit=_READ_AHEAD_BYTES)


def _check_hello(message: dict[str, object]) -> Hello:
    if message.get("type") != "hello":
        raise FrameError("the first frame is no hello")
    if message.get("protocol") != PROTOCOL_VERSION:
        detail = f"sandboxd speaks protocol {message.get('protocol')}, this runner {PROTOCOL_VERSION}"
        raise SandboxUnavailable(Reason.SANDBOX_UNAVAILABLE, detail)
    try:
        return Hello.model_validate(message)
    except ValidationError as error:
        raise FrameError(f"the hello is incomplete: {error}") from error
