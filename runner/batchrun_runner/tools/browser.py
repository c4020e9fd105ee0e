"""`browser_*`: pages in a real browser."""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from batchrun_api.text import shortened_bytes
from batchrun_runner.tools.arguments import Arguments
from batchrun_runner.tools.context import ToolContext, ToolErrorKind, ToolFailure, ToolResult, omitted_end, result
from batchrun_runner.tools.pictures import for_model
from batchrun_runner.tools.vision import question_about

COMPACT_BYTES = 12_000
"""Of a snapshot, where the model does not ask for all of it."""
Ref = Annotated[
    str, Field(min_length=1, max_length=40, description="The element's ref in the newest snapshot: e12 for [ref=e12].")
]


class NavigateArguments(Arguments):
    url: Annotated[str, Field(min_length=1, max_length=4_000, description="Address of the page, http or https.")]


class SnapshotArguments(Arguments):
    full: Annotated[bool, Field(description="All of a long page; else its beginning.")] = False


class ClickArguments(Arguments):
    ref: Ref


class TypeArguments(Arguments):
    ref: Ref
    text: Annotated[str, Field(max_length=20_000, description="What the field shall hold.")]


class ScrollArguments(Arguments):
    direction: Annotated[Literal["up", "down"], Field(description="Where to.")]


class NoArguments(Arguments):
    pass


class PressArguments(Arguments):
    key: Annotated[
        str, Field(min_length=1, max_length=50, description="Enter, Tab, Escape, ArrowDown, a, Control+A, ...")
    ]


class VisionArguments(Arguments):
    question: Annotated[str, Field(min_length=1, max_length=20_000, description="What to find out about the page.")]


class ConsoleArguments(Arguments):
    clear: Annotated[bool, Field(description="Forget the messages after this.")] = False


async def navigate(arguments: NavigateArguments, context: ToolContext) -> ToolResult:
    return _with_snapshot(await _ask(context, "navigate", arguments), COMPACT_BYTES)


async def snapshot(arguments: SnapshotArguments, context: ToolContext) -> ToolResult:
    room = context.limits.read_bytes if arguments.full else COMPACT_BYTES
    return _with_snapshot(await _ask(context, "snapshot", NoArguments()), room)


async def look(arguments: VisionArguments, context: ToolContext) -> ToolResult:
    """What the model of `tools.vision` says of a screenshot."""
    vision = context.services.vision
    if vision is None:
        raise ToolFailure(ToolErrorKind.INTERNAL, "the toolset vision is not available in this run")
    fields = await _ask(context, "screenshot", NoArguments())
    picture = await asyncio.to_thread(for_model, base64.b64decode(fields["png"]))
    answer = await vision.model.answer(question_about(arguments.question, picture), context)
    return _plain({"url": fields["url"], "analysis": shortened_bytes(answer, context.limits.read_bytes)})


def _acting(action: str) -> Callable[[Any, ToolContext], Awaitable[ToolResult]]:
    """A tool that does no more than one action of the service."""

    async def act(arguments: Arguments, context: ToolContext) -> ToolResult:
        return _plain(await _ask(context, action, arguments))

    return act


async def _ask(context: ToolContext, action: str, arguments: Arguments) -> dict[str, Any]:
    """Raises WebFailure, whose kinds are those of tools."""
    if context.browser is None:
        raise ToolFailure(ToolErrorKind.INTERNAL, "the toolset browser is not available in this run")
    return await context.browser.call(action, arguments.model_dump())


def _plain(fields: Mapping[str, Any]) -> ToolResult:
    return result({**fields, "error": None})


def _with_snapshot(fields: Mapping[str, Any], room: int) -> ToolResult:
    whole = str(fields["snapshot"])
    kept = whole
    if len(whole.encode()) > room:
        kept = shortened_bytes(whole, room).rpartition("\n")[0]
    return _plain({**fields, "snapshot": kept, "omitted": omitted_end(whole, kept)})


_NAVIGATE = (
    "Open a page in the browser; gives its snapshot, as browser_snapshot does. Only public http and https addresses. "
    "Cookies and history stay until the task ends."
)
_SNAPSHOT = (
    "The current page as its accessibility tree. Elements to click or type into carry a ref, such as [ref=e12]; refs "
    "are those of the newest snapshot."
)
_CLICK = (
    "Click an element of the page. Dialogs that open are accepted at once; events tells of them, of new pages and of "
    "downloads, which are refused."
)
TOOLS = (
    ("browser_navigate", _NAVIGATE, NavigateArguments, navigate),
    ("browser_snapshot", _SNAPSHOT, SnapshotArguments, snapshot),
    ("browser_click", _CLICK, ClickArguments, _acting("click")),
    ("browser_type", "Put text into a field of the page, in place of what it holds.", TypeArguments, _acting("type")),
    ("browser_scroll", "Scroll the page by most of a screen.", ScrollArguments, _acting("scroll")),
    ("browser_back", "Go back to the page before; closes a page that opened by itself.", NoArguments, _acting("back")),
    ("browser_press", "Press a key, or several at once, in the page.", PressArguments, _acting("press")),
    (
        "browser_get_images",
        "Addresses, descriptions and sizes of the page's pictures.",
        NoArguments,
        _acting("get_images"),
    ),
    (
        "browser_vision",
        "Take a picture of what the browser shows now and answer a question about it, where the snapshot does not do.",
        VisionArguments,
        look,
    ),
    (
        "browser_console",
        "What the pages have written to the browser's console, and errors of their scripts.",
        ConsoleArguments,
        _acting("console"),
    ),
)
"""Name, description, arguments and function of each."""
