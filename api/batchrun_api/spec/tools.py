"""Which tools the model is offered, and what they need."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from batchrun_api.spec.base import ApiModel, HttpURL, Rule, SecretKeyRef
from batchrun_api.spec.mcp import HEADER_PURPOSES, MOST_SERVERS, McpServer
from batchrun_api.spec.tool_models import (
    MOA_AGGREGATOR,
    MOST_REFERENCE_MODELS,
    AddressRanges,
    ImageGen,
    MixtureOfAgents,
    ModelRef,
    Vision,
    reference_purpose,
)

TOOL_KEY_PURPOSES = (
    "web.search",
    "vision",
    "image_gen",
    *(reference_purpose(number) for number in range(MOST_REFERENCE_MODELS)),
    MOA_AGGREGATOR,
    *HEADER_PURPOSES,
)
"""What keys of tools are for: the names in `Tools.key_refs`."""
WITH_KEY = ("Brave", "Tavily")
"""Search providers that nobody may ask without a key."""


class WebSearch(ApiModel):
    """Who answers `web_search`."""

    provider: Literal["SearXNG", "Brave", "Tavily", "DuckDuckGo"]
    """SearXNG: a server of your own. Brave, Tavily: their APIs, with a key. DuckDuckGo: no key, few searches."""
    base_url: Annotated[HttpURL | None, Field(alias="baseURL")] = None
    """Base URL of the SearXNG server, or of a gateway to the provider's API. Left out: the provider's own."""
    api_key_secret_ref: SecretKeyRef | None = None
    """The API key. On one machine: BRAVE_API_KEY or TAVILY_API_KEY in the environment."""
    timeout_seconds: Annotated[int, Field(ge=1, le=600)] = 30
    """Longest time of one search in seconds."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="self.provider != 'SearXNG' || has(self.baseURL)",
            message="SearXNG needs baseURL: the address of your server, in whose settings the format json is on",
            holds=lambda self: self.provider != "SearXNG" or self.base_url is not None,
        ),
        Rule(
            cel="self.provider != 'DuckDuckGo' || !has(self.baseURL)",
            message="DuckDuckGo has no base URL: leave it out, or name another provider",
            holds=lambda self: self.provider != "DuckDuckGo" or self.base_url is None,
        ),
        Rule(
            cel="!(self.provider in ['Brave', 'Tavily']) || has(self.apiKeySecretRef)",
            message="Brave and Tavily need a key on a cluster: name its Secret in apiKeySecretRef",
            holds=lambda self: self.provider not in WITH_KEY or self.api_key_secret_ref is not None,
            cluster_only=True,
        ),
    )


class Web(ApiModel):
    """The toolset `web`: search, and pages as text."""

    search: WebSearch
    """Who answers searches."""
    allowed_ranges: AddressRanges = Field(default_factory=list)
    """Ranges of private addresses (10.1.0.0/16) in which pages may be read all the same. All others are refused."""


class Tools(ApiModel):
    """Which tools the model is offered."""

    on_unavailable: Literal["Fail", "Drop"] = "Fail"
    """A toolset whose needs are not met: refuse the run, or run without it."""
    web: Web | None = None
    """The toolset `web`. Left out: unavailable, and so is `browser`, which searches too."""
    vision: Vision | None = None
    """The toolset `vision`; {} asks the run's own model. Left out: unavailable."""
    image_gen: ImageGen | None = None
    """The toolset `image_gen`. Left out: unavailable."""
    mixture_of_agents: MixtureOfAgents | None = None
    """The toolset `moa`. Left out: unavailable."""
    mcp_servers: Annotated[list[McpServer], Field(max_length=MOST_SERVERS)] = Field(default_factory=list)
    """MCP servers of your own; the tools of each form a toolset under its name, for own distributions."""

    def acting(self) -> dict[str, Any]:
        """What of it acts on results, for the configuration's digest; without toolsets as before there were any."""
        parts: dict[str, Any] = {"onUnavailable": self.on_unavailable}
        if self.web is not None:
            parts["web"] = {"provider": self.web.search.provider}
        if self.vision is not None:
            parts["vision"] = self.vision.acting()
        if self.image_gen is not None:
            parts["imageGen"] = self.image_gen.acting()
        if self.mixture_of_agents is not None:
            parts["mixtureOfAgents"] = self.mixture_of_agents.acting()
        if self.mcp_servers:
            parts["mcpServers"] = [server.acting() for server in self.mcp_servers]
        return parts

    def model_refs(self) -> dict[str, ModelRef]:
        """Models that tools ask besides the run's own, by what they are for."""
        refs = {
            "vision": self.vision.model if self.vision else None,
            "image_gen": self.image_gen.model if self.image_gen else None,
            **(self.mixture_of_agents.refs() if self.mixture_of_agents else {}),
        }
        return {purpose: ref for purpose, ref in refs.items() if ref is not None}

    def key_refs(self) -> dict[str, SecretKeyRef]:
        """Secrets of the tools, by what they are for."""
        refs = {"web.search": self.web.search.api_key_secret_ref if self.web else None}
        refs |= {purpose: ref.api_key_secret_ref for purpose, ref in self.model_refs().items()}
        for number, server in enumerate(self.mcp_servers):
            refs |= server.header_refs(number)
        return {purpose: ref for purpose, ref in refs.items() if ref is not None}

    def server_urls(self) -> list[str]:
        """Servers that the runner asks for the tools, where the spec names their addresses."""
        urls = [self.web.search.base_url if self.web else None, *(ref.base_url for ref in self.model_refs().values())]
        return [*(url for url in urls if url is not None), *(server.url for server in self.mcp_servers)]

    def opened_ranges(self) -> list[str]:
        """Ranges of private addresses that the spec opens."""
        web = self.web.allowed_ranges if self.web else []
        pictures = self.vision.allowed_ranges if self.vision else []
        return list(dict.fromkeys([*web, *pictures]))
