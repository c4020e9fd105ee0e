"""Bringing artifacts back into a fresh sandbox, so that a verifier can judge them again."""

from collections.abc import Mapping

from batchrun_runner.records import Collect
from batchrun_runner.sandbox.backend import SandboxLease
from batchrun_runner.sandbox.collecting import COLLECTED
from batchrun_runner.sandbox.errors import SandboxError, SetupFailed
from batchrun_runner.sandbox.fresh import fresh_file
from batchrun_runner.sandbox.preparing import end_of_output, how_it_ended
from batchrun_runner.text import one_line

_OUTPUT_BYTES = 4096
_SHOWN_CHARS = 100


async def put_back(lease: SandboxLease, path: str, data: bytes, mode: int) -> None:
    """Write one file where it came from. Raises SetupFailed and SandboxLost."""
    try:
        await lease.sandbox.write_file(path, data, cwd=lease.cwd, mode=mode)
    except SandboxError as error:
        raise SetupFailed(f"{one_line(path, _SHOWN_CHARS)} cannot be put back: {error.message}") from error


async def restore(
    lease: SandboxLease, wanted: Collect, output: bytes, env: Mapping[str, str], command_seconds: int
) -> None:
    """Run the row's `collect.restore` over the collected output. Raises SetupFailed and SandboxLost."""
    seconds = wanted.timeout_seconds or command_seconds
    try:
        file = await fresh_file(lease, "out")
        await lease.sandbox.write_file(file, output, cwd=lease.cwd)
        done = await lease.sandbox.exec(
            wanted.restore,
            cwd=lease.cwd,
            timeout_seconds=seconds,
            limit_bytes=_OUTPUT_BYTES,
            env={**env, COLLECTED: file},
        )
    except SandboxError as error:
        raise SetupFailed(f"collect.restore could not be run: {error.message}") from error
    if done.timed_out or done.exit_code != 0:
        end = end_of_output(done)
        said = f"; its output ends: {end}" if end else ""
        raise SetupFailed(f"collect.restore {how_it_ended(done, seconds)}{said}")
