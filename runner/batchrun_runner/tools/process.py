"""`process`: look after commands that `terminal` started in the background."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from batchrun_runner.sandbox.messages import PollResult, ProcessStatus
from batchrun_runner.tools.arguments import Arguments
from batchrun_runner.tools.context import ToolContext, ToolResult, result
from batchrun_runner.tools.terminal import omitted

DESCRIPTION = (
    "Manage background processes that terminal started with background=true. list: all of them. poll: state and output "
    "since the last look. wait: the same, but wait for the end up to timeout seconds. log: all output that is kept. "
    "write: send data to standard input. kill: end the process and all that it started."
)


class ProcessArguments(Arguments):
    action: Annotated[Literal["list", "poll", "wait", "log", "write", "kill"], Field(description="What to do.")]
    process_id: Annotated[
        str, Field(description="Which process, as terminal named it; every action but list needs it.")
    ] = ""
    timeout: Annotated[int, Field(ge=0, description="Seconds for wait; 0 for the default.")] = 0
    data: Annotated[str, Field(description="Text for write; add a newline to end a line.")] = ""
    close: Annotated[bool, Field(description="With write: end standard input after the data.")] = False

    @model_validator(mode="after")
    def _needs_a_process(self) -> "ProcessArguments":
        if self.action != "list" and not self.process_id:
            raise ValueError(f"process_id is needed for {self.action}")
        return self


async def run(arguments: ProcessArguments, context: ToolContext) -> ToolResult:
    """Every action answers with the state of the process; one that is unknown is a failure."""
    sandbox, process_id = context.sandbox, arguments.process_id
    match arguments.action:
        case "list":
            processes = await sandbox.list_processes()
            return result({"processes": [_state(process) for process in processes], "error": None})
        case "write":
            taken = await sandbox.write_input(process_id, arguments.data.encode(), close=arguments.close)
            return result(
                {"process_id": process_id, "written_bytes": taken, "note": _write_note(arguments, taken), "error": None}
            )
        case "kill":
            await sandbox.kill(process_id)
            return await _look(context, process_id, context.read_up_to.get(process_id, 0), 0)
        case "log":
            return await _look(context, process_id, 0, 0)
        case "poll":
            return await _look(context, process_id, context.read_up_to.get(process_id, 0), 0)
        case "wait":
            limits = context.limits
            seconds = min(arguments.timeout or limits.command_seconds, limits.max_command_seconds)
            return await _look(context, process_id, context.read_up_to.get(process_id, 0), seconds)


async def _look(context: ToolContext, process_id: str, from_byte: int, seconds: int) -> ToolResult:
    seen = await context.sandbox.poll(
        process_id, from_byte=from_byte, limit_bytes=context.limits.output_bytes, timeout_seconds=seconds
    )
    context.read_up_to[process_id] = seen.next_byte
    note = f"still running after {seconds} s" if seconds and seen.running else None
    return result(_state(seen) | _output(seen) | {"note": note, "error": None})


def _state(status: ProcessStatus) -> dict[str, Any]:
    return {
        "process_id": status.process_id,
        "command": status.command,
        "status": "running" if status.running else "ended",
        "exit_code": None if status.running else status.exit_code,
        "seconds": round(status.duration_ms / 1000, 1),
    }


def _output(seen: PollResult) -> dict[str, Any]:
    return {"output": seen.output.joined, "omitted": omitted(seen.output)}


def _write_note(arguments: ProcessArguments, taken: int) -> str | None:
    wanted = len(arguments.data.encode())
    return f"the process took only {taken} of {wanted} bytes: it does not read" if taken < wanted else None
