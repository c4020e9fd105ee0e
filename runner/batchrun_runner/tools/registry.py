"""The closed set of tools: their schemas for the model, and `execute`."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from batchrun_api.toolsets import TOOLSETS
from batchrun_runner.sandbox.errors import SandboxError, SandboxLost
from batchrun_runner.text import fault_of_ours
from batchrun_runner.tools import files, image_gen, moa, patch, process, search, terminal, vision, web
from batchrun_runner.tools.arguments import Arguments, check
from batchrun_runner.tools.context import ToolContext, ToolErrorKind, ToolFailure, ToolResult, failure
from batchrun_runner.web.errors import WebFailure


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: what the model reads about it, and what it does with checked arguments."""

    name: str
    description: str
    arguments: type[Arguments]
    run: Callable[[Any, ToolContext], Awaitable[ToolResult]]

    def schema(self) -> dict[str, Any]:
        """Its definition as the chat API takes it."""
        parameters = _plain(self.arguments.model_json_schema())
        function = {"name": self.name, "description": self.description, "parameters": parameters}
        return {"type": "function", "function": function}


TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool("terminal", terminal.DESCRIPTION, terminal.TerminalArguments, terminal.run),
        Tool("process", process.DESCRIPTION, process.ProcessArguments, process.run),
        Tool("read_file", files.READ_DESCRIPTION, files.ReadArguments, files.read),
        Tool("write_file", files.WRITE_DESCRIPTION, files.WriteArguments, files.write),
        Tool("patch", patch.DESCRIPTION, patch.PatchArguments, patch.run),
        Tool("search_files", search.DESCRIPTION, search.SearchArguments, search.run),
        Tool("web_search", web.SEARCH_DESCRIPTION, web.SearchArguments, web.search),
        Tool("web_extract", web.EXTRACT_DESCRIPTION, web.ExtractArguments, web.extract),
        Tool("vision_analyze", vision.DESCRIPTION, vision.AnalyzeArguments, vision.analyze),
        Tool("image_generate", image_gen.DESCRIPTION, image_gen.GenerateArguments, image_gen.generate),
        Tool("mixture_of_agents", moa.DESCRIPTION, moa.MixtureArguments, moa.mix),
    )
}
"""Every tool that works, by name."""

IMPLEMENTED_TOOLSETS = frozenset(name for name, tools in TOOLSETS.items() if all(tool in TOOLS for tool in tools))
"""Toolsets whose tools all work."""


def tools_of(toolsets: Collection[str]) -> tuple[str, ...]:
    """Names of the working built-in tools of some toolsets, each once, in the registry's order."""
    wanted = {tool for name in toolsets for tool in TOOLSETS.get(name, ())}
    return tuple(name for name in TOOLS if name in wanted)


def schemas(names: Collection[str]) -> list[dict[str, Any]]:
    """Definitions of some tools for a request, in the registry's order."""
    return [_schema(name) for name in TOOLS if name in names]


@cache
def _schema(name: str) -> dict[str, Any]:
    """Made once: pydantic takes milliseconds for each, and every prompt wants them. Nobody changes them."""
    return TOOLS[name].schema()


async def execute(name: str, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    """Run one call. Whatever the model did wrong or the sandbox refused becomes a failed result, and so does a fault
    of ours over one call's odd data.

    Raises SandboxLost: the prompt is over then, and the call is not repeated.
    """
    tool = TOOLS.get(name)
    if tool is None or name not in context.tools:
        known = ", ".join(context.tools) or "none"
        return failure(ToolErrorKind.UNKNOWN_TOOL, f"there is no tool {name!r}; the tools are: {known}")
    try:
        return await tool.run(check(tool.arguments, arguments), context)
    except ToolFailure as error:
        return failure(error.kind, error.message)
    except (SandboxError, WebFailure) as error:
        return failure(error.kind, error.message)
    except SandboxLost:
        raise
    except Exception as error:
        return failure(ToolErrorKind.INTERNAL, fault_of_ours(error))


def _plain(schema: Any) -> Any:
    """A schema without the titles that pydantic adds: models pay for every word."""
    if isinstance(schema, dict):
        return {key: _plain(value) for key, value in schema.items() if not (key == "title" and isinstance(value, str))}
    if isinstance(schema, list):
        return [_plain(value) for value in schema]
    return schema
