"""`terminal`: run a shell command, or start one in the background."""

from typing import Annotated

from pydantic import Field

from batchrun_runner.sandbox.errors import ErrorKind, SandboxError
from batchrun_runner.sandbox.messages import ExecResult, Output
from batchrun_runner.tools.arguments import Arguments
from batchrun_runner.tools.context import ToolContext, ToolErrorKind, ToolFailure, ToolResult, result

DESCRIPTION = (
    "Run a shell command in this task's own machine and get its output (stdout and stderr together, in order) and exit "
    "code. The working directory is remembered between calls; other shell state is not. Nobody can answer questions: "
    "standard input is empty. Set background to true for servers and long jobs, then use the process tool."
)


class TerminalArguments(Arguments):
    command: Annotated[str, Field(min_length=1, description="The command, as for sh -c.")]
    timeout: Annotated[
        int, Field(ge=0, description="Seconds until the command and all that it started is killed; 0 for the default.")
    ] = 0
    background: Annotated[bool, Field(description="Return at once with a process_id and let the command run.")] = False


async def run(arguments: TerminalArguments, context: ToolContext) -> ToolResult:
    """A non-zero exit code is a result; only a timeout and what kept the command from running are failures."""
    try:
        if arguments.background:
            return await _start(arguments, context)
        return await _exec(arguments, context)
    except SandboxError as error:
        raise await _explain(error, context) from error


async def _start(arguments: TerminalArguments, context: ToolContext) -> ToolResult:
    started = await context.sandbox.start(arguments.command, cwd=context.cwd, env=context.env)
    note = f'it runs in the background: use process with process_id "{started.process_id}"'
    fields = {"output": "", "exit_code": None, "error": None, "process_id": started.process_id, "note": note}
    return result(fields)


async def _exec(arguments: TerminalArguments, context: ToolContext) -> ToolResult:
    limits = context.limits
    wanted = arguments.timeout or limits.command_seconds
    seconds = min(wanted, limits.max_command_seconds)
    done = await context.sandbox.exec(
        arguments.command,
        cwd=context.cwd,
        timeout_seconds=seconds,
        limit_bytes=limits.output_bytes,
        env=context.env,
    )
    notes = _notes(done, context.sandbox.hello.memory_limit_bytes)
    if wanted > seconds:
        notes.append(f"the timeout was limited to {seconds} s")
    if not done.cwd_exists:
        context.cwd = await _existing_cwd(context)
        notes.append(f"the working directory {done.cwd} is gone; the next command runs in {context.cwd}")
    else:
        context.cwd = done.cwd
    error = (
        f"the command did not end in {seconds} s and was killed with all that it had started"
        if done.timed_out
        else None
    )
    fields = {
        "output": done.output.joined,
        "exit_code": None if done.timed_out else done.exit_code,
        "error": error,
        "timed_out": True if done.timed_out else None,
        "omitted": omitted(done.output),
        "notes": notes or None,
    }
    return result(fields, failed=done.timed_out, error_kind=ToolErrorKind.TIMEOUT if done.timed_out else None)


def omitted(output: Output) -> str | None:
    """A note on what was cut; None when nothing was."""
    if not output.omitted_bytes:
        return None
    return f"{output.omitted_bytes} bytes in the middle of the output were left out; write long output to a file"


def _notes(done: ExecResult, memory_limit_bytes: int) -> list[str]:
    notes = []
    if done.signal and not done.timed_out:
        notes.append(f"the shell was ended by {done.signal}")
    if done.oom_kills:
        limit = f"; the memory limit is {memory_limit_bytes / 2**20:.0f} MiB" if memory_limit_bytes else ""
        notes.append(f"out of memory: {done.oom_kills} process(es) were killed by the kernel{limit}")
    if done.process_limit_kills:
        notes.append(f"too many processes: {done.process_limit_kills} were killed")
    if done.leftover_processes:
        notes.append(f"{done.leftover_processes} process(es) of this machine still run; their later output is not kept")
    return notes


async def _existing_cwd(context: ToolContext) -> str:
    """The prompt's first folder, else its home, else the root, which is always there."""
    for path in (context.start_cwd, context.sandbox.hello.home):
        try:
            if path and (await context.sandbox.stat(path, cwd="/")).kind == "directory":
                return path
        except SandboxError:
            continue
    return "/"


async def _explain(error: SandboxError, context: ToolContext) -> ToolFailure:
    if error.kind is ErrorKind.NO_SHELL:
        tools = ", ".join(name for name in context.tools if name not in {"terminal", "process"})
        return ToolFailure(error.kind, f"{error.message}. Still usable: {tools or 'no other tool'}")
    if error.kind in {ErrorKind.NOT_FOUND, ErrorKind.NOT_A_DIRECTORY}:
        context.cwd = await _existing_cwd(context)
        return ToolFailure(error.kind, f"{error.message}; nothing was run. The next command runs in {context.cwd}")
    return ToolFailure.of(error)
