"""`search_files`: text in files, or files by name, without any program of the image."""

from typing import Annotated, Any, Literal

from pydantic import Field

from batchrun_runner.sandbox.interface import SearchMode, SearchQuery
from batchrun_runner.sandbox.messages import SearchResult
from batchrun_runner.tools.arguments import Arguments
from batchrun_runner.tools.context import ToolContext, ToolResult, result

DESCRIPTION = (
    "Search below a folder. target=content: lines that match a regular expression (RE2: no lookaround, no "
    "backreferences; (?i) ignores case). target=files: files whose name matches a glob such as *.py or src/**/test_*; "
    "a pattern without wildcards matches anywhere in the name. Binary files, .git, node_modules and the like are "
    "left out."
)
_MODES: dict[str, SearchMode] = {"content": "content", "files_only": "files", "count": "count"}
_WILDCARDS = frozenset("*?[{")
_TRUNCATED = {
    "limit": "there are more results: raise offset or narrow the search",
    "time": "the search took too long and is incomplete: narrow the path",
    "bytes": "there is too much to search and the result is incomplete: narrow the path or file_glob",
    "folder_too_large": "a folder has too many files, only a part of it was searched",
}


class SearchArguments(Arguments):
    pattern: Annotated[str, Field(min_length=1, description="Regular expression (content) or glob (files).")]
    target: Annotated[Literal["content", "files"], Field(description="What to search.")] = "content"
    path: Annotated[str, Field(min_length=1, description="Folder to search in, or one file.")] = "."
    file_glob: Annotated[str, Field(description="With target=content: only files whose name matches, as *.py.")] = ""
    limit: Annotated[int, Field(ge=1, le=500, description="Most results to return.")] = 50
    offset: Annotated[int, Field(ge=0, description="Results to skip.")] = 0
    output_mode: Annotated[
        Literal["content", "files_only", "count"],
        Field(description="With target=content: matching lines, only the files, or the number of lines of each file."),
    ] = "content"


async def run(arguments: SearchArguments, context: ToolContext) -> ToolResult:
    """No result is a result; a pattern that is none is a failure."""
    pattern = arguments.pattern
    if arguments.target == "files" and not _WILDCARDS & set(pattern):
        pattern = f"*{pattern}*"
    query = SearchQuery(
        pattern=pattern,
        target=arguments.target,
        path=arguments.path,
        mode=_MODES[arguments.output_mode],
        file_glob=arguments.file_glob,
        offset=arguments.offset,
        limit=arguments.limit,
        timeout_seconds=context.limits.search_seconds,
    )
    found = await context.sandbox.search(query, cwd=context.cwd)
    note = _TRUNCATED.get(found.truncated)
    more = arguments.offset + len(found.matches) if found.truncated == "limit" else None
    return result(_shaped(arguments, found) | {"next_offset": more, "note": note, "error": None})


def _shaped(arguments: SearchArguments, found: SearchResult) -> dict[str, Any]:
    if arguments.target == "files" or arguments.output_mode == "files_only":
        return {"files": [match.path for match in found.matches]}
    if arguments.output_mode == "count":
        return {"counts": {match.path: match.count for match in found.matches}}
    return {"matches": [{"path": match.path, "line": match.line, "text": match.text} for match in found.matches]}
