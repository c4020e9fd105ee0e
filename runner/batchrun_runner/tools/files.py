"""`read_file` and `write_file`."""

from typing import Annotated

from pydantic import Field

from batchrun_runner.sandbox.messages import FileLines
from batchrun_runner.tools.arguments import Arguments
from batchrun_runner.tools.context import ToolContext, ToolErrorKind, ToolFailure, ToolResult, result

READ_DESCRIPTION = (
    "Read a text file. Each line comes as `number|text`. Long files come in pieces: go on with the next_offset of the "
    "result. Very long lines are cut and say so."
)
WRITE_DESCRIPTION = (
    "Write a whole text file; an existing one is replaced, missing folders are made. "
    "To change a part of a file use patch."
)
_PATH = "Absolute, or relative to the terminal's working directory; ~ is the home folder."


class ReadArguments(Arguments):
    path: Annotated[str, Field(min_length=1, description=_PATH)]
    offset: Annotated[int, Field(ge=1, description="First line to read; 1 is the first of the file.")] = 1
    limit: Annotated[int, Field(ge=1, le=2000, description="How many lines to read.")] = 500


class WriteArguments(Arguments):
    path: Annotated[str, Field(min_length=1, description=_PATH)]
    content: Annotated[str, Field(description="The whole new content.")]


async def read(arguments: ReadArguments, context: ToolContext) -> ToolResult:
    """Lines with numbers, bounded in lines and bytes; directories, devices and binary files are refused."""
    limits = context.limits
    found = await context.sandbox.read_lines(
        arguments.path,
        cwd=context.cwd,
        first_line=arguments.offset,
        limit_lines=arguments.limit,
        limit_bytes=limits.read_bytes,
        max_line_bytes=limits.line_bytes,
    )
    if found.binary:
        raise ToolFailure(ToolErrorKind.BINARY_FILE, f"{found.path} is a binary file of {found.size_bytes} bytes")
    next_offset = arguments.offset + len(found.lines)
    fields = {
        "content": "\n".join(_numbered(found, arguments.offset)),
        "total_lines": found.total_lines if found.total_lines >= 0 else None,
        "size_bytes": found.size_bytes,
        "next_offset": None if found.eof else next_offset,
        "note": _note(found, arguments, limits.read_bytes),
        "error": None,
    }
    return result(fields)


async def write(arguments: WriteArguments, context: ToolContext) -> ToolResult:
    """The new content is there as a whole or not at all."""
    written = await context.sandbox.write_file(arguments.path, arguments.content.encode(), cwd=context.cwd)
    fields = {
        "path": written.path,
        "written_bytes": written.written_bytes,
        "created": written.created,
        "error": None,
    }
    return result(fields)


def _numbered(found: FileLines, first: int) -> list[str]:
    cut = {line.index: line.omitted_bytes for line in found.cut}
    lines = []
    for index, text in enumerate(found.lines):
        rest = f" [... {cut[index]} more bytes in this line]" if index in cut else ""
        lines.append(f"{first + index}|{text}{rest}")
    return lines


def _note(found: FileLines, arguments: ReadArguments, limit_bytes: int) -> str | None:
    first = arguments.offset
    if not found.lines:
        return "the file is empty" if first == 1 else f"the file has {found.total_lines} lines, none from {first} on"
    if not found.eof and len(found.lines) < arguments.limit:
        return f"one call shows {limit_bytes} bytes at most: {len(found.lines)} of the {arguments.limit} lines are here"
    return None
