"""Commands that do their worst, one after the other (field reports c01 to c05)."""

import asyncio
import time
from pathlib import Path

import pytest
from tests.contract.sandbox.support import alive, status_kib, until

from batchrun_api.outcomes import Outcome
from batchrun_runner.sandbox.backend import SandboxLease
from batchrun_runner.sandbox.client import SandboxConnection
from batchrun_runner.sandbox.errors import ErrorKind, SandboxError
from batchrun_runner.sandbox.interface import Sandbox
from batchrun_runner.sandbox.messages import ExecResult


async def run(sandbox: Sandbox, command: str, *, seconds: float = 10, limit: int = 10_000, cwd: str = "") -> ExecResult:
    return await sandbox.exec(command, cwd=cwd or sandbox.hello.cwd, timeout_seconds=seconds, limit_bytes=limit)


@pytest.mark.parametrize("command", ["sleep 300 & echo ok", "setsid sleep 300 & echo ok", "(sleep 300 &) ; echo ok"])
async def test_a_child_that_holds_the_pipe_does_not_hold_the_result(lease: SandboxLease, command: str) -> None:
    began = time.monotonic()

    done = await run(lease.sandbox, command)

    assert time.monotonic() - began < 1
    assert (done.exit_code, done.output.head, done.leftover_processes) == (0, "ok\n", 1)
    assert (await run(lease.sandbox, "echo next")).output.head == "next\n"


async def test_a_background_printer_goes_on_without_a_broken_pipe(lease: SandboxLease) -> None:
    done = await run(lease.sandbox, "(while echo noise; do :; done; echo broken > broken) & echo ok")

    assert done.exit_code == 0
    assert "ok\n" in done.output.head + done.output.tail
    later = await run(lease.sandbox, "test -e broken")
    assert (later.exit_code, later.leftover_processes) == (1, 1)


async def test_leftovers_end_with_the_prompt(lease: SandboxLease) -> None:
    done = await run(lease.sandbox, "setsid sleep 300 & echo $!")
    pid = int(done.output.head)
    assert alive(pid)

    await lease.finish(Outcome.COMPLETED)

    await until(lambda: not alive(pid))


@pytest.mark.parametrize("command", ["cat", "read x", "python3", "git commit", "bash -i"])
async def test_a_command_that_asks_finds_nobody(lease: SandboxLease, command: str) -> None:
    began = time.monotonic()

    done = await run(lease.sandbox, command, seconds=20)

    assert not done.timed_out
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("command", ["yes", "yes >&2", "cat /dev/zero", "base64 /dev/urandom"])
async def test_a_flood_is_bounded_while_it_is_read(lease: SandboxLease, command: str) -> None:
    done = await run(lease.sandbox, command, seconds=1, limit=10_000)

    assert done.timed_out
    assert len(done.output.head.encode()) <= 6000
    assert len(done.output.tail.encode()) <= 4000
    assert done.output.omitted_bytes > 1_000_000
    helper = int((await run(lease.sandbox, "echo $PPID")).output.head)
    assert status_kib(helper, "VmRSS") < 20_000


@pytest.mark.parametrize("limit", range(300, 312))
async def test_a_cut_falls_between_characters(lease: SandboxLease, limit: int) -> None:
    done = await run(lease.sandbox, "for i in $(seq 200); do printf '🍸é'; done", limit=limit)

    kept = done.output.head + done.output.tail
    assert set(kept) == {"🍸", "é"}
    assert len(kept.encode()) + done.output.omitted_bytes == 200 * 6


async def test_a_timeout_ends_the_tree_however_it_hides(lease: SandboxLease) -> None:
    hidden = (
        "setsid sh -c 'sleep 300; true' & "
        "env -i setsid sh -c 'echo $$ > hidden; sleep 300; true' & "
        "(env -i sh -c 'exec setsid sleep 300' &) & "
    )
    wait = "echo $$ > shell; while ! test -s hidden; do :; done; sleep 300"

    done = await run(lease.sandbox, hidden + wait, seconds=1.5)

    assert done.timed_out
    assert (done.exit_code, done.signal, done.leftover_processes) == (137, "SIGKILL", 0)
    work = Path(lease.cwd)
    assert not alive(int((work / "hidden").read_text()))
    assert not alive(int((work / "shell").read_text()))


async def test_a_timeout_leaves_an_older_daemon_alone(lease: SandboxLease) -> None:
    daemon = int((await run(lease.sandbox, "setsid sleep 300 & echo $!")).output.head)

    done = await run(lease.sandbox, "sleep 300", seconds=0.3)

    assert done.timed_out
    assert alive(daemon)


async def test_commands_run_side_by_side_and_a_timeout_hits_only_its_own(lease: SandboxLease) -> None:
    slow, quick = await asyncio.gather(
        run(lease.sandbox, "sleep 300", seconds=0.5), run(lease.sandbox, "sleep 1; echo done", seconds=10)
    )

    assert slow.timed_out
    assert (quick.exit_code, quick.output.head) == (0, "done\n")


async def test_closed_descriptors_are_a_result(lease: SandboxLease) -> None:
    done = await run(lease.sandbox, "exec 0<&- 1>&- 2>&- 7>&-; sleep 0.1; exit 5")

    assert (done.exit_code, done.timed_out, done.cwd) == (5, False, lease.cwd)


async def test_output_written_right_before_the_end_is_kept(lease: SandboxLease) -> None:
    for _ in range(20):
        done = await run(lease.sandbox, "sleep 300 & head -c 60000 /dev/zero | tr '\\0' x; exit 0", limit=100_000)
        assert len(done.output.head) == 60_000


async def test_a_command_of_200_kb_is_refused(lease: SandboxLease) -> None:
    with pytest.raises(SandboxError) as raised:
        await lease.sandbox.exec("x" * 200_000, cwd=lease.cwd, timeout_seconds=1, limit_bytes=1000)

    assert raised.value.kind is ErrorKind.TOO_LARGE


async def test_as_pid_1_orphans_are_reaped(pid1: SandboxConnection) -> None:
    await run(pid1, "for i in $(seq 500); do (sleep 0.1 &) ; done", seconds=60)

    async def gone() -> bool:
        left = await run(pid1, "ps -e -o stat= | grep -c Z; ps -e -o comm= | grep -c sleep")
        return left.output.head.split() == ["0", "0"]

    await until(gone)
    assert (await run(pid1, "true")).exit_code == 0


@pytest.mark.parametrize(
    "signal", ["KILL", "TERM", "INT", "HUP", "QUIT", "ABRT", "SEGV", "STOP", "TSTP", "USR1", "PIPE"]
)
async def test_as_pid_1_no_signal_from_below_ends_it(pid1: SandboxConnection, signal: str) -> None:
    assert pid1.hello.pid1

    await run(pid1, f"kill -{signal} 1; exit 0")

    assert (await run(pid1, "echo alive")).output.head == "alive\n"


async def test_as_pid_1_a_storm_of_all_signals_does_not_end_it(pid1: SandboxConnection) -> None:
    assert pid1.hello.pid1

    storm = "for round in $(seq 30); do for number in $(seq 64); do kill -$number 1 2>/dev/null; done; done; exit 4"
    done = await run(pid1, storm, seconds=60)

    assert done.exit_code == 4
    ignored = await run(pid1, "grep SigIgn /proc/1/status")
    assert int(ignored.output.head.split()[1], 16) >> 31 & 0b111 == 0b111, "libc's own signals would end it"


async def test_memory_is_taken_from_commands_before_the_helper(pid1: SandboxConnection) -> None:
    """Under a fork bomb the helper is the largest process of all."""
    done = await run(pid1, "cat /proc/self/oom_score_adj; sh -c 'cat /proc/self/oom_score_adj'")
    helper = await run(pid1, "cat /proc/1/oom_score_adj")

    assert done.output.head == "1000\n1000\n"
    assert int(helper.output.head) < 1000


async def test_as_pid_1_kill_of_everybody_ends_only_the_command(pid1: SandboxConnection) -> None:
    assert pid1.hello.pid1, "this would kill the machine's processes"

    done = await run(pid1, "sleep 300 & kill -9 -1; exit 3")

    assert done.exit_code == 3
    assert (await run(pid1, "echo alive")).output.head == "alive\n"


CONTAINER_CAPABILITIES = (
    "-all,+chown,+dac_override,+fowner,+fsetid,+kill,+setgid,+setuid,+setpcap,+net_bind_service,+net_raw,"
    "+sys_chroot,+mknod,+audit_write,+setfcap"
)
"""What a container engine leaves to root by default."""


@pytest.mark.parametrize("secret", ["environ", "mem", "fd/3"])
async def test_as_pid_1_it_cannot_be_looked_into(pid1: SandboxConnection, secret: str) -> None:
    done = await run(pid1, f"setpriv --bounding-set {CONTAINER_CAPABILITIES} --inh-caps -all cat /proc/1/{secret}")

    assert done.exit_code == 1
    assert "Permission denied" in done.output.head


async def test_as_pid_1_a_fork_bomb_stays_below_the_limit_and_ends_with_its_command(pid1: SandboxConnection) -> None:
    await pid1.configure(max_processes=60)

    done = await run(pid1, "bomb() { bomb | bomb & }; bomb; sleep 300", seconds=2)

    assert done.timed_out
    assert done.process_limit_kills > 0
    assert done.leftover_processes == 0
    assert (await run(pid1, "echo alive")).output.head == "alive\n"


async def test_as_pid_1_a_daemon_without_any_trace_dies_at_the_timeout(pid1: SandboxConnection) -> None:
    done = await run(pid1, "env -i setsid sh -c '(setsid sleep 300 &) ; exit' ; sleep 300", seconds=1)

    assert (done.timed_out, done.leftover_processes) == (True, 0)
