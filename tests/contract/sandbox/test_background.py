"""Background processes: start, poll, wait, write, kill, list."""

import time

import pytest
from tests.contract.sandbox.support import alive, until

from batchrun_api.outcomes import Outcome
from batchrun_runner.sandbox.backend import SandboxLease
from batchrun_runner.sandbox.errors import ErrorKind, SandboxError
from batchrun_runner.sandbox.messages import PollResult


async def poll(lease: SandboxLease, process_id: str, start: int = 0, *, wait: float = 0) -> PollResult:
    return await lease.sandbox.poll(process_id, from_byte=start, limit_bytes=10_000, timeout_seconds=wait)


async def test_a_process_is_followed_to_its_end(lease: SandboxLease) -> None:
    started = await lease.sandbox.start("echo one; read go; echo two $go; exit 3", cwd=lease.cwd)

    async def has_printed() -> bool:
        return (await poll(lease, started.process_id)).output.head == "one\n"

    await until(has_printed)
    assert await lease.sandbox.write_input(started.process_id, b"now\n") == 4
    ended = await poll(lease, started.process_id, 4, wait=10)

    assert (ended.running, ended.exit_code, ended.output.head) == (False, 3, "two now\n")
    assert ended.next_byte == len("one\ntwo now\n")
    assert [process.process_id for process in await lease.sandbox.list_processes()] == [started.process_id]


async def test_closing_the_input_is_the_end_of_the_file(lease: SandboxLease) -> None:
    started = await lease.sandbox.start("sort", cwd=lease.cwd)

    await lease.sandbox.write_input(started.process_id, b"b\na\n", close=True)

    assert (await poll(lease, started.process_id, wait=10)).output.head == "a\nb\n"
    with pytest.raises(SandboxError) as raised:
        await lease.sandbox.write_input(started.process_id, b"more")
    assert raised.value.kind is ErrorKind.IO


async def test_a_process_that_does_not_read_holds_nobody_up(lease: SandboxLease) -> None:
    started = await lease.sandbox.start("sleep 300", cwd=lease.cwd)
    began = time.monotonic()

    taken = await lease.sandbox.write_input(started.process_id, b"x" * 1_000_000)

    assert 0 < taken < 1_000_000
    assert time.monotonic() - began < 8


async def test_waiting_ends_with_the_timeout(lease: SandboxLease) -> None:
    started = await lease.sandbox.start("sleep 300", cwd=lease.cwd)

    assert (await poll(lease, started.process_id, wait=0.2)).running


async def test_kill_ends_all_that_it_started_even_what_ignores_sigterm(lease: SandboxLease) -> None:
    command = "trap '' TERM; setsid sleep 300 & echo $!; while :; do sleep 1; done"
    started = await lease.sandbox.start(command, cwd=lease.cwd)

    async def has_printed() -> bool:
        return (await poll(lease, started.process_id)).output.head != ""

    await until(has_printed)
    child = int((await poll(lease, started.process_id)).output.head)

    status = await lease.sandbox.kill(started.process_id)

    assert (status.running, status.signal) == (False, "SIGKILL")
    assert not alive(child)


async def test_a_flood_keeps_its_end_and_says_what_is_missing(lease: SandboxLease) -> None:
    started = await lease.sandbox.start("yes | head -c 5000000; echo; echo last", cwd=lease.cwd)

    ended = await poll(lease, started.process_id, wait=20)

    assert ended.output.tail.endswith("last\n")
    kept = len(ended.output.head) + len(ended.output.tail)
    assert kept + ended.output.omitted_bytes == ended.next_byte == 5_000_006


async def test_a_background_process_survives_a_timeout_of_another_command(lease: SandboxLease) -> None:
    started = await lease.sandbox.start("sleep 300", cwd=lease.cwd)

    done = await lease.sandbox.exec("sleep 300", cwd=lease.cwd, timeout_seconds=0.3, limit_bytes=1000)

    assert (done.timed_out, done.leftover_processes) == (True, 0)
    assert (await poll(lease, started.process_id)).running


async def test_there_is_room_for_64_and_ended_ones_make_way(lease: SandboxLease) -> None:
    ids = [(await lease.sandbox.start("read x", cwd=lease.cwd)).process_id for _ in range(64)]
    with pytest.raises(SandboxError) as raised:
        await lease.sandbox.start("true", cwd=lease.cwd)
    assert raised.value.kind is ErrorKind.LIMIT

    await lease.sandbox.write_input(ids[5], b"", close=True)
    await poll(lease, ids[5], wait=10)
    await lease.sandbox.start("true", cwd=lease.cwd)

    known = [process.process_id for process in await lease.sandbox.list_processes()]
    assert ids[5] not in known
    assert len(known) == 64


async def test_all_processes_end_with_the_prompt(lease: SandboxLease) -> None:
    started = await lease.sandbox.start("exec setsid sleep 300", cwd=lease.cwd)

    await lease.finish(Outcome.COMPLETED)

    await until(lambda: not alive(started.pid))
