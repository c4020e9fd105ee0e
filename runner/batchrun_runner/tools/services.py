"""What tools outside of the sandbox work with: one set for a process, shared by all prompts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from batchrun_runner.settings import RunSettings

if TYPE_CHECKING:
    from batchrun_runner.web.pages import PageReader
    from batchrun_runner.web.search import SearchProvider


@dataclass(frozen=True, slots=True)
class WebServices:
    """The toolset `web`."""

    search: "SearchProvider"
    pages: "PageReader"


@dataclass(frozen=True, slots=True)
class ToolServices:
    """None: that toolset is unavailable, and its tools are never offered."""

    web: WebServices | None = None


NO_SERVICES = ToolServices()


@asynccontextmanager
async def open_services(settings: RunSettings) -> AsyncIterator[ToolServices]:
    """The services that the spec asks for; closed with the context."""
    web = settings.spec.tools.web
    if web is None:
        yield NO_SERVICES
        return
    # Loaded for the runs that read the web only.
    from batchrun_runner.web.addresses import AddressRules  # noqa: PLC0415
    from batchrun_runner.web.pages import PageReader  # noqa: PLC0415
    from batchrun_runner.web.search import provider_of  # noqa: PLC0415

    search = provider_of(web.search, settings.tool_keys.get("web.search", ""))
    pages = PageReader(AddressRules.of(web.allowed_ranges))
    try:
        yield ToolServices(WebServices(search, pages))
    finally:
        await search.aclose()
        await pages.aclose()
