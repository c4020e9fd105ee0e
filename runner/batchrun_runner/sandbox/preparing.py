"""What a row brings into its sandbox before the agent begins: files, then a command."""

from collections.abc import Iterable

from batchrun_runner.records import PromptRow, RowFile
from batchrun_runner.sandbox.backend import SandboxLease
from batchrun_runner.sandbox.errors import SandboxError, SetupFailed
from batchrun_runner.sandbox.messages import ExecResult
from batchrun_runner.text import one_line

_OUTPUT_BYTES = 4096
_SHOWN_CHARS = 300
_SHOWN_PATH_CHARS = 100


async def prepare(lease: SandboxLease, row: PromptRow, command_seconds: int) -> None:
    """Put the row's files in place and run its setup. Raises SetupFailed and SandboxLost."""
    try:
        await put_files(lease, row.files)
    except SandboxError as error:
        raise SetupFailed(f"its files cannot be put in place: {error.message}") from error
    if not row.setup:
        return
    try:
        done = await lease.sandbox.exec(
            row.setup, cwd=lease.cwd, timeout_seconds=command_seconds, limit_bytes=_OUTPUT_BYTES, env=row.env
        )
    except SandboxError as error:
        raise SetupFailed(f"setup could not be run: {error.message}") from error
    if done.timed_out or done.exit_code != 0:
        end = end_of_output(done)
        raise SetupFailed(f"setup {how_it_ended(done, command_seconds)}" + (f"; its output ends: {end}" if end else ""))


async def put_files(lease: SandboxLease, files: Iterable[RowFile]) -> None:
    """Write files one after the other; relative paths count from the prompt's first folder. Raises SandboxError."""
    for file in files:
        try:
            await lease.sandbox.write_file(file.path, file.data, cwd=lease.cwd)
        except SandboxError as error:
            raise SandboxError(error.kind, f"{one_line(file.path, _SHOWN_PATH_CHARS)}: {error.message}") from error


def how_it_ended(done: ExecResult, limit_seconds: int) -> str:
    """In words that follow the command's name."""
    if done.timed_out:
        return f"did not end in {limit_seconds} s and was killed"
    of_memory = f", out of memory: {done.oom_kills} process(es) were killed by the kernel" if done.oom_kills else ""
    return f"ended with exit code {done.exit_code}{f' ({done.signal})' if done.signal else ''}{of_memory}"


def end_of_output(done: ExecResult) -> str:
    """The last characters of what a command printed, in one line."""
    text = done.output.joined.rstrip()
    cut = len(text) > _SHOWN_CHARS
    return ("… " if cut else "") + one_line(text[-_SHOWN_CHARS:], _SHOWN_CHARS)
