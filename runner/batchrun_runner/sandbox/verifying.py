"""The verifier of a row: run in its sandbox when the agent has ended and nothing of it runs any more.

Nothing of it reaches the model: neither its files, nor its output, nor the reward.
"""

from collections.abc import Mapping

from batchrun_runner.records import Verification, Verify
from batchrun_runner.sandbox.backend import SandboxLease
from batchrun_runner.sandbox.errors import ErrorKind, SandboxError, SandboxLost
from batchrun_runner.sandbox.fresh import fresh_file
from batchrun_runner.sandbox.messages import ExecResult
from batchrun_runner.sandbox.preparing import end_of_output, how_it_ended, put_files
from batchrun_runner.text import one_line

REWARD_FILE = "BATCHRUN_REWARD_FILE"
"""Variable that names the file into which a verifier may write its reward."""
OUTPUT_BYTES = 16 * 1024
"""Kept of a verifier's output, head and tail together."""
LARGEST_REWARD = 1e9
"""In either direction: sums over any run stay exact enough, and what is beyond is a slip or an attack."""
_NUMBER_BYTES = 256
_SHELL_CANNOT_RUN = frozenset({126, 127})


async def verify(lease: SandboxLease, wanted: Verify, env: Mapping[str, str], command_seconds: int) -> Verification:
    """Judge what the agent left behind. Whatever keeps it from a verdict is the `fault` of the result, and no reward.

    `env`: the row's own variables; `command_seconds`: the time limit of a verifier that names none.
    """
    try:
        return await _verify(lease, wanted, env, wanted.timeout_seconds or command_seconds)
    except SandboxError as error:
        return Verification(fault=f"the verifier could not be run: {error.message}")
    except SandboxLost as error:
        cause = await lease.cause_of_loss()
        why = f"{cause.reason}, {cause.message}" if cause is not None else str(error)
        return Verification(fault=f"the sandbox was lost while the verifier was at work: {why}")


async def _verify(lease: SandboxLease, wanted: Verify, env: Mapping[str, str], seconds: int) -> Verification:
    sandbox = lease.sandbox
    await sandbox.kill_all()
    await sandbox.make_directory(lease.cwd, cwd="/")  # the agent may have removed it
    await put_files(lease, wanted.files)
    reward_file = await fresh_file(lease, "reward")
    done = await sandbox.exec(
        wanted.command,
        cwd=lease.cwd,
        timeout_seconds=seconds,
        limit_bytes=OUTPUT_BYTES,
        env={**env, REWARD_FILE: reward_file},
    )
    ran = Verification(ran=True, exit_code=done.exit_code, timed_out=done.timed_out, output=done.output.joined)
    if done.timed_out:
        return ran.with_reward(0.0)
    written = await _written(lease, reward_file)
    if written is not None:
        number = _number(written)
        if number is None:
            shown = one_line(written.decode(errors="replace"), 60)
            return ran.with_fault(f"the verifier wrote {shown!r} to ${REWARD_FILE}, which is no number up to a billion")
        return ran.with_reward(number)
    if done.exit_code in _SHELL_CANNOT_RUN or done.signal:
        return ran.with_fault(_no_verdict(done, seconds))
    return ran.with_reward(1.0 if done.exit_code == 0 else 0.0)


async def _written(lease: SandboxLease, path: str) -> bytes | None:
    """What the verifier wrote as its reward; None: nothing."""
    try:
        found = await lease.sandbox.read_bytes(path, cwd="/", offset_bytes=0, limit_bytes=_NUMBER_BYTES)
    except SandboxError as error:
        if error.kind is ErrorKind.NOT_FOUND:
            return None
        raise
    return found.data if found.eof else found.data + b"..."


def _number(text: bytes) -> float | None:
    """A number that can be a reward; None for anything else. Python alone takes digits with underscores for one."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if b"_" not in text and abs(value) <= LARGEST_REWARD else None


def _no_verdict(done: ExecResult, seconds: int) -> str:
    end = end_of_output(done)
    said = f"; its output ends: {end}" if end else ""
    hint = "" if done.signal else " (a shell's word for a command that is not there or cannot be run)"
    return f"the verifier {how_it_ended(done, seconds)}{hint}, which is no verdict{said}"
