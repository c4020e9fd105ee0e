"""The runner's side of a connection: how a sandbox is lost, and that it stays lost."""

import asyncio
import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.contract.sandbox.conftest import Serve
from tests.contract.sandbox.support import until

from batchrun_api.outcomes import Outcome
from batchrun_runner.sandbox.backend import SandboxLease
from batchrun_runner.sandbox.client import SandboxConnection
from batchrun_runner.sandbox.errors import ErrorKind, LostCause, SandboxError, SandboxLost, SandboxUnavailable
from batchrun_runner.sandbox.listener import SandboxListener
from batchrun_runner.sandbox.protocol import encode_frame

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "protocol"


async def connect(folder: Path, *frames: bytes) -> tuple[SandboxConnection, socket.socket]:
    """A connection to a sandbox that says what we want."""
    listener = SandboxListener(folder, margin_seconds=0.2)
    accepting = asyncio.create_task(listener.accept())
    peer = await dial(folder)
    peer.sendall(hello_frame() + b"".join(frames))
    return await accepting, peer


async def dial(folder: Path) -> socket.socket:
    peer = socket.socket(socket.AF_UNIX)

    def connects() -> bool:
        try:
            peer.connect(str(folder / "s.sock"))
        except OSError:
            return False
        return True

    await until(connects)
    return peer


def hello_frame() -> bytes:
    body = (GOLDEN / "hello.json").read_bytes()
    return len(body).to_bytes(4) + body


async def test_a_closed_connection_ends_every_waiting_call(folder: Path) -> None:
    connection, peer = await connect(folder)
    calls = [asyncio.create_task(connection.list_processes()) for _ in range(3)]
    await asyncio.sleep(0)

    peer.close()

    for call in calls:
        with pytest.raises(SandboxLost) as raised:
            await call
        assert raised.value.cause is LostCause.CONNECTION_CLOSED
    with pytest.raises(SandboxLost):
        await connection.list_processes()
    await connection.close()


async def test_a_sandbox_that_does_not_answer_is_lost_and_the_command_is_not_sent_again(folder: Path) -> None:
    connection, peer = await connect(folder)
    began = time.monotonic()

    with pytest.raises(SandboxLost) as raised:
        await connection.exec("make world", cwd="/", timeout_seconds=0.1, limit_bytes=1000)

    assert raised.value.cause is LostCause.DEADLINE_EXCEEDED
    assert time.monotonic() - began < 2
    peer.settimeout(5)
    received = b""
    while part := peer.recv(65536):
        received += part
    assert received.count(b"make world") == 1
    peer.close()


@pytest.mark.parametrize(
    "frame",
    [
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x00",
        b"\x00\x00\x00\x03abc",
        encode_frame({"id": 1, "result": {"processes": "many"}}),
        encode_frame({"id": 1, "error": {"kind": "unheard_of", "message": ""}}),
        encode_frame({"id": 1}),
        encode_frame({"id": [1]}),
    ],
)
async def test_an_answer_that_is_none_is_a_lost_sandbox(folder: Path, frame: bytes) -> None:
    connection, peer = await connect(folder)
    call = asyncio.create_task(connection.list_processes())
    await until(lambda: bool(connection._waiting))

    peer.sendall(frame)

    with pytest.raises(SandboxLost) as raised:
        await call
    assert raised.value.cause is LostCause.PROTOCOL_BROKEN
    await connection.close()
    peer.close()


async def test_an_answer_to_nobody_is_dropped(folder: Path) -> None:
    connection, peer = await connect(folder, encode_frame({"id": 99, "result": {}}))
    call = asyncio.create_task(connection.list_processes())
    await until(lambda: bool(connection._waiting))

    peer.sendall(encode_frame({"id": 1, "result": {"processes": []}}))

    assert await call == ()
    await connection.close()
    peer.close()


async def test_a_cancelled_call_leaves_the_connection_usable(lease: SandboxLease) -> None:
    call = asyncio.create_task(lease.sandbox.exec("sleep 0.3", cwd="/", timeout_seconds=5, limit_bytes=1000))
    await asyncio.sleep(0.05)
    call.cancel()

    done = await lease.sandbox.exec("echo next", cwd="/", timeout_seconds=5, limit_bytes=1000)

    assert done.output.head == "next\n"


async def test_a_request_with_half_a_character_is_refused_before_it_is_sent(lease: SandboxLease) -> None:
    with pytest.raises(SandboxError) as raised:
        await lease.sandbox.exec("echo \ud83d", cwd="/", timeout_seconds=5, limit_bytes=1000)

    assert raised.value.kind is ErrorKind.INVALID_ARGUMENT


async def test_an_ended_sandbox_serves_no_more(lease: SandboxLease) -> None:
    await lease.sandbox.end(Outcome.COMPLETED)

    with pytest.raises(SandboxLost) as raised:
        await lease.sandbox.list_processes()
    assert raised.value.cause is LostCause.ENDED


async def test_only_one_sandbox_is_let_in(folder: Path) -> None:
    connection, peer = await connect(folder)

    with socket.socket(socket.AF_UNIX) as second, pytest.raises(OSError, match="No such file"):
        second.connect(str(folder / "s.sock"))

    assert not connection.is_lost
    await connection.close()
    peer.close()


async def test_any_uid_may_connect(folder: Path) -> None:
    accepting = asyncio.create_task(SandboxListener(folder).accept())
    await until((folder / "s.sock").exists)

    assert (folder / "s.sock").stat().st_mode & 0o777 == 0o666

    accepting.cancel()
    await asyncio.wait([accepting])
    assert not (folder / "s.sock").exists()


@pytest.mark.parametrize("noise", [b"", b"GET / HTTP/1.1\r\n\r\n", encode_frame({"type": "goodbye"})])
async def test_who_says_no_hello_is_sent_away_and_the_next_is_heard(folder: Path, noise: bytes) -> None:
    accepting = asyncio.create_task(SandboxListener(folder).accept())
    stranger = await dial(folder)
    stranger.setblocking(False)
    stranger.sendall(noise)
    stranger.shutdown(socket.SHUT_WR)
    with suppress(ConnectionResetError):
        assert await asyncio.get_running_loop().sock_recv(stranger, 1) == b""
    stranger.close()

    peer = await dial(folder)
    peer.sendall(hello_frame())

    connection = await accepting
    assert connection.hello.boot_id == "00112233445566778899aabbccddeeff"
    await connection.close()
    peer.close()


async def test_another_protocol_version_is_told_apart(folder: Path) -> None:
    accepting = asyncio.create_task(SandboxListener(folder).accept())
    peer = await dial(folder)
    peer.sendall(encode_frame({"type": "hello", "protocol": 99}))

    with pytest.raises(SandboxUnavailable, match="protocol 99"):
        await accepting
    peer.close()


async def test_a_second_life_has_another_boot_id(folder: Path, serve: Serve) -> None:
    listener = SandboxListener(folder)
    lives = []
    for _ in range(2):
        process = serve("--shared-files", pid1=True)
        connection = await listener.accept()
        lives.append(connection.hello.boot_id)
        await connection.exec("true", cwd="/", timeout_seconds=5, limit_bytes=1000)
        await connection.close()
        assert await asyncio.to_thread(process.wait, 10) == 3

    assert lives[0] != lives[1]
