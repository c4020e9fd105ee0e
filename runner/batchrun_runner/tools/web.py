"""`web_search` and `web_extract`: the web as text."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from batchrun_api.text import shortened_bytes
from batchrun_runner.tools.arguments import Arguments
from batchrun_runner.tools.context import ToolContext, ToolErrorKind, ToolFailure, ToolResult, omitted_end, result
from batchrun_runner.web.errors import WebFailure

if TYPE_CHECKING:
    from batchrun_runner.tools.services import WebServices

SEARCH_DESCRIPTION = (
    "Search the web. Gives titles, addresses and short descriptions, best first; use web_extract to read a page."
)
EXTRACT_DESCRIPTION = (
    "Read web pages by their addresses: the main content of each as Markdown. Up to 5 at a time. Only public http and "
    "https addresses can be read."
)
_DESCRIPTION_BYTES = 1_000
_TITLE_BYTES = 1_000
_MOST_URL_CHARS = 4_000
"""What is longer cannot be read: no search gives it."""


class SearchArguments(Arguments):
    query: Annotated[str, Field(min_length=1, max_length=1_000, description="What to search for.")]
    limit: Annotated[int, Field(ge=1, le=20, description="Results at most.")] = 5


class ExtractArguments(Arguments):
    urls: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=_MOST_URL_CHARS)]],
        Field(min_length=1, max_length=5, description="Addresses of the pages, http or https."),
    ]


async def search(arguments: SearchArguments, context: ToolContext) -> ToolResult:
    """No result is a result."""
    hits = await _web(context).search.search(arguments.query, arguments.limit)
    results = [
        {
            "title": shortened_bytes(hit.title, _TITLE_BYTES),
            "url": hit.url,
            "description": shortened_bytes(hit.description, _DESCRIPTION_BYTES),
        }
        for hit in hits
        if len(hit.url) <= _MOST_URL_CHARS
    ]
    return result({"results": results, "error": None})


async def extract(arguments: ExtractArguments, context: ToolContext) -> ToolResult:
    """The call failed when no page could be read; else each page says for itself."""
    web = _web(context)
    room = context.limits.read_bytes // len(arguments.urls)

    async def read(url: str) -> tuple[dict[str, Any], WebFailure | None]:
        try:
            page = await web.pages.read(url)
        except WebFailure as error:
            return {"url": url, "error": error.message}, error
        text = shortened_bytes(page.text, room)
        url = shortened_bytes(page.url, _MOST_URL_CHARS)
        fields = {"url": url, "title": shortened_bytes(page.title, _TITLE_BYTES), "content": text, "error": None}
        if omitted := omitted_end(page.text, text):
            fields["omitted"] = omitted
        return fields, None

    read_pages = await asyncio.gather(*(read(url) for url in arguments.urls))
    failures = [failure for _, failure in read_pages if failure is not None]
    pages = [fields for fields, _ in read_pages]
    if len(failures) < len(pages):
        return result({"results": pages, "error": None})
    said = "; ".join(f"{url}: {failure.message}" for url, failure in zip(arguments.urls, failures, strict=True))
    raise ToolFailure(failures[0].kind, said)


def _web(context: ToolContext) -> "WebServices":
    if context.services.web is None:
        raise ToolFailure(ToolErrorKind.INTERNAL, "the toolset web is not available in this run")
    return context.services.web
