"""Which tools the model is offered, and what they need."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from batchrun_api.spec.base import ApiModel, HttpURL, Rule, SecretKeyRef

CIDR = r"^[0-9A-Fa-f.:]+/[0-9]{1,3}$"
AddressRange = Annotated[str, Field(min_length=4, max_length=64, pattern=CIDR)]

TOOL_KEY_PURPOSES = ("web.search",)
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
    allowed_ranges: Annotated[list[AddressRange], Field(max_length=32)] = Field(default_factory=list)
    """Ranges of private addresses (10.1.0.0/16) in which pages may be read all the same. All others are refused."""


class Tools(ApiModel):
    """Which tools the model is offered."""

    on_unavailable: Literal["Fail", "Drop"] = "Fail"
    """A toolset whose needs are not met: refuse the run, or run without it."""
    web: Web | None = None
    """The toolset `web`. Left out: unavailable, and so is `browser`, which searches too."""

    def acting(self) -> dict[str, Any]:
        """What of it acts on results, for the configuration's digest; without toolsets as before there were any."""
        parts: dict[str, Any] = {"onUnavailable": self.on_unavailable}
        if self.web is not None:
            parts["web"] = {"provider": self.web.search.provider}
        return parts

    def key_refs(self) -> dict[str, SecretKeyRef]:
        """Secrets of the tools, by what they are for."""
        search = self.web.search if self.web else None
        return {"web.search": search.api_key_secret_ref} if search and search.api_key_secret_ref else {}

    def server_urls(self) -> list[str]:
        """Servers that the runner asks for the tools, where the spec names their addresses."""
        return [self.web.search.base_url] if self.web and self.web.search.base_url else []

    def opened_ranges(self) -> list[str]:
        """Ranges of private addresses that the spec opens."""
        return list(self.web.allowed_ranges) if self.web else []
