"""What tools outside of the sandbox work with: one set for a process, shared by all prompts."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from batchrun_api.spec.tool_models import Vision
from batchrun_api.spec.tools import Web
from batchrun_runner.settings import RunSettings

if TYPE_CHECKING:
    from batchrun_runner.model.client import ModelClient
    from batchrun_runner.tools.asking import AskedModel, AskedModels
    from batchrun_runner.web.fetching import Fetcher
    from batchrun_runner.web.pages import PageReader
    from batchrun_runner.web.search import SearchProvider


@dataclass(frozen=True, slots=True)
class WebServices:
    """The toolset `web`."""

    search: "SearchProvider"
    pages: "PageReader"


@dataclass(frozen=True, slots=True)
class VisionServices:
    """The toolset `vision`."""

    model: "AskedModel"
    pictures: "Fetcher"


@dataclass(frozen=True, slots=True)
class ToolServices:
    """None: that toolset is unavailable, and its tools are never offered."""

    web: WebServices | None = None
    vision: VisionServices | None = None


NO_SERVICES = ToolServices()


@asynccontextmanager
async def open_services(settings: RunSettings, own: "ModelClient") -> AsyncIterator[ToolServices]:
    """The services that the spec asks for; closed with the context. `own`: the client of the run's own model."""
    from batchrun_runner.tools.asking import AskedModels  # noqa: PLC0415 - it needs the tools' context

    tools = settings.spec.tools
    async with AsyncExitStack() as stack:
        models = AskedModels(settings, own, stack)
        yield ToolServices(
            web=_web(tools.web, settings, stack) if tools.web else None,
            vision=await _vision(tools.vision, models, stack) if tools.vision else None,
        )


# Libraries are loaded for the runs that need them only.


def _web(web: Web, settings: RunSettings, stack: AsyncExitStack) -> WebServices:
    from batchrun_runner.web.addresses import AddressRules  # noqa: PLC0415
    from batchrun_runner.web.pages import PageReader  # noqa: PLC0415
    from batchrun_runner.web.search import provider_of  # noqa: PLC0415

    search = provider_of(web.search, settings.tool_keys.get("web.search", ""))
    stack.push_async_callback(search.aclose)
    pages = PageReader(AddressRules.of(web.allowed_ranges))
    stack.push_async_callback(pages.aclose)
    return WebServices(search, pages)


async def _vision(vision: Vision, models: "AskedModels", stack: AsyncExitStack) -> VisionServices:
    from batchrun_runner.tools.pictures import MOST_BYTES  # noqa: PLC0415
    from batchrun_runner.web.addresses import AddressRules  # noqa: PLC0415
    from batchrun_runner.web.fetching import Fetcher, FetchLimits  # noqa: PLC0415

    limits = FetchLimits(max_bytes=MOST_BYTES)
    pictures = Fetcher(AddressRules.of(vision.allowed_ranges), limits, accept="image/*")
    stack.push_async_callback(pictures.aclose)
    return VisionServices(await models.of("vision", vision.model), pictures)
