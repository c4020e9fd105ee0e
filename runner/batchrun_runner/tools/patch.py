"""`patch`: change parts of files, by search and replace or by a unified diff."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from batchrun_runner.sandbox.errors import ErrorKind, SandboxError
from batchrun_runner.tools.arguments import Arguments
from batchrun_runner.tools.context import ToolContext, ToolFailure, ToolResult, result
from batchrun_runner.tools.editing import replace_text
from batchrun_runner.tools.unified import FilePatch, apply, parse

DESCRIPTION = (
    "Change parts of files. mode=replace: put new_string in the place of old_string, which must occur exactly once in "
    "the file (give lines around it to make it unique) unless replace_all is true. mode=patch: apply a unified diff, "
    "which may change and create several files; nothing is written unless all of it fits."
)
_MAX_FILE_BYTES = 4 * 1024 * 1024
_SHOWN_LINES = 20


class PatchArguments(Arguments):
    mode: Annotated[Literal["replace", "patch"], Field(description="How to change.")] = "replace"
    path: Annotated[
        str, Field(description="The file. With mode=patch it may be empty: the diff's headers name the files then.")
    ] = ""
    old_string: Annotated[
        str, Field(description="With mode=replace: the exact text to find, white space included.")
    ] = ""
    new_string: Annotated[str, Field(description="With mode=replace: the text to put there; empty deletes.")] = ""
    replace_all: Annotated[bool, Field(description="With mode=replace: replace every occurrence.")] = False
    patch: Annotated[str, Field(description="With mode=patch: the unified diff.")] = ""

    @model_validator(mode="after")
    def _mode_has_its_arguments(self) -> "PatchArguments":
        if self.mode == "replace" and not self.path:
            raise ValueError("path is needed with mode=replace")
        if self.mode == "replace" and self.patch:
            raise ValueError("patch goes with mode=patch only")
        if self.mode == "patch" and not self.patch:
            raise ValueError("patch is needed with mode=patch")
        return self


async def run(arguments: PatchArguments, context: ToolContext) -> ToolResult:
    """What does not fit exactly is a failure, and then no file has changed."""
    if arguments.mode == "patch":
        return await _apply(arguments, context)
    text = await _read(arguments.path, context)
    edited = replace_text(
        text, arguments.old_string, arguments.new_string, replace_all=arguments.replace_all, name=arguments.path
    )
    path = await _write(arguments.path, edited.text, context)
    fields = {"path": path, "replaced": len(edited.lines), "lines": edited.lines[:_SHOWN_LINES], "error": None}
    return result(fields)


async def _apply(arguments: PatchArguments, context: ToolContext) -> ToolResult:
    patches = parse(arguments.patch, arguments.path)
    texts: dict[str, str] = {}
    for patch in patches:
        before = texts[patch.path] if patch.path in texts else await _before(patch, context)
        texts[patch.path] = apply(patch, before)
    paths = await _write_all(texts, context)
    return result({"paths": paths, "hunks": sum(len(patch.hunks) for patch in patches), "error": None})


async def _write_all(texts: Mapping[str, str], context: ToolContext) -> list[str]:
    """The paths. A file that cannot be written comes after others that were: the model must know which."""
    paths: list[str] = []
    for path, text in texts.items():
        try:
            paths.append(await _write(path, text, context))
        except SandboxError as error:
            done = f"; already patched: {', '.join(paths)}" if paths else ""
            raise ToolFailure(error.kind, f"{error.message}{done}") from error
    return paths


async def _before(patch: FilePatch, context: ToolContext) -> str:
    if not patch.creates:
        return await _read(patch.path, context)
    try:
        await context.sandbox.stat(patch.path, cwd=context.cwd)
    except SandboxError as error:
        if error.kind is ErrorKind.NOT_FOUND:
            return ""
        raise
    raise ToolFailure(ErrorKind.INVALID_ARGUMENT, f"the patch creates {patch.path}, which exists already")


async def _read(path: str, context: ToolContext) -> str:
    """The file as text that keeps bytes which are no UTF-8."""
    found = await context.sandbox.read_bytes(path, cwd=context.cwd, offset_bytes=0, limit_bytes=_MAX_FILE_BYTES)
    if not found.eof:
        raise ToolFailure(ErrorKind.TOO_LARGE, f"{path} has more than {_MAX_FILE_BYTES} bytes")
    return found.data.decode("utf-8", "surrogateescape")


async def _write(path: str, text: str, context: ToolContext) -> str:
    written = await context.sandbox.write_file(path, text.encode("utf-8", "surrogateescape"), cwd=context.cwd)
    return written.path
