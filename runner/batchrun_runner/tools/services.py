"""What tools outside of the sandbox work with: one set for a process, shared by all prompts."""

from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from batchrun_api.spec.tool_models import ImageGen, MixtureOfAgents, Vision
from batchrun_api.spec.tools import Web
from batchrun_runner.browser.client import BrowserConnection, SocketOf
from batchrun_runner.settings import RunSettings
from batchrun_runner.storage.store import ObjectStore

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
class ImageGenServices:
    """The toolset `image_gen`."""

    model: "AskedModel"
    base_url: str
    size: str
    """Where the agent asks for none; empty: the server's own."""
    of_server: "Fetcher"
    """For pictures at the model's own server, wherever that is; it follows no redirect."""
    of_others: "Fetcher"
    """For pictures elsewhere: at public addresses."""
    store: ObjectStore


@dataclass(frozen=True, slots=True)
class MoaServices:
    """The toolset `moa`."""

    references: "tuple[AskedModel, ...]"
    aggregator: "AskedModel"


@dataclass(frozen=True, slots=True)
class BrowserServices:
    """The toolset `browser`."""

    socket_of: SocketOf
    seconds: int
    """For one action."""

    def connection(self) -> BrowserConnection:
        """For one prompt; it is made by the first call."""
        return BrowserConnection(self.socket_of, self.seconds)


@dataclass(frozen=True, slots=True)
class ToolServices:
    """None: that toolset is unavailable, and its tools are never offered."""

    web: WebServices | None = None
    vision: VisionServices | None = None
    image_gen: ImageGenServices | None = None
    moa: MoaServices | None = None
    browser: BrowserServices | None = None


NO_SERVICES = ToolServices()


@asynccontextmanager
async def open_services(
    settings: RunSettings, own: "ModelClient", store: ObjectStore, browser: SocketOf
) -> AsyncIterator[ToolServices]:
    """The services that the spec asks for; closed with the context.

    `own`: the client of the run's own model. `store`: the run's output folder. `browser`: where its service listens.
    """
    from batchrun_runner.tools.asking import AskedModels  # noqa: PLC0415 - it needs the tools' context

    tools = settings.spec.tools
    async with AsyncExitStack() as stack:
        models = AskedModels(settings, own, stack)
        yield ToolServices(
            web=_web(tools.web, settings, stack) if tools.web else None,
            vision=await _vision(tools.vision, models, stack) if tools.vision else None,
            image_gen=await _image_gen(tools.image_gen, settings, models, store, stack) if tools.image_gen else None,
            moa=await _moa(tools.mixture_of_agents, models) if tools.mixture_of_agents else None,
            browser=BrowserServices(browser, tools.browser.action_timeout_seconds) if tools.browser else None,
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
    pictures = _pictures(vision.allowed_ranges, stack)
    return VisionServices(await models.of("vision", vision.model), pictures)


async def _image_gen(
    image_gen: ImageGen, settings: RunSettings, models: "AskedModels", store: ObjectStore, stack: AsyncExitStack
) -> ImageGenServices:
    return ImageGenServices(
        model=await models.of("image_gen", image_gen.model),
        base_url=image_gen.model.base_url or settings.spec.model.base_url,
        size=image_gen.size or "",
        of_server=_pictures(["0.0.0.0/0", "::/0"], stack, redirects=0),
        of_others=_pictures([], stack),
        store=store,
    )


async def _moa(moa: MixtureOfAgents, models: "AskedModels") -> MoaServices:
    *references, aggregator = [await models.of(purpose, ref) for purpose, ref in moa.refs().items()]
    return MoaServices(tuple(references), aggregator)


def _pictures(allowed_ranges: Iterable[str], stack: AsyncExitStack, redirects: int = 5) -> "Fetcher":
    from batchrun_runner.tools.pictures import MOST_BYTES  # noqa: PLC0415
    from batchrun_runner.web.addresses import AddressRules  # noqa: PLC0415
    from batchrun_runner.web.fetching import Fetcher, FetchLimits  # noqa: PLC0415

    limits = FetchLimits(max_bytes=MOST_BYTES, redirects=redirects)
    fetcher = Fetcher(AddressRules.of(allowed_ranges), limits, accept="image/*")
    stack.push_async_callback(fetcher.aclose)
    return fetcher
