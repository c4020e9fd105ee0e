"""Which model answers, and how it is asked."""

from typing import Annotated, Any, Literal

from pydantic import Field

from batchrun_api.spec.base import ApiModel, HttpURL, SecretKeyRef, ShortText

DEFAULT_MODEL = "anthropic/claude-sonnet-4.6"
OPENROUTER_URL = "https://openrouter.ai/api/v1"

ProviderNames = Annotated[list[ShortText], Field(min_length=1, max_length=64)]


class Providers(ApiModel):
    """Which of OpenRouter's providers may answer, and in which order they are tried."""

    allowed: ProviderNames | None = None
    """Only these providers (OpenRouter `provider.only`)."""
    ignored: ProviderNames | None = None
    """Never these providers (OpenRouter `provider.ignore`)."""
    order: ProviderNames | None = None
    """Try these first, in this order (OpenRouter `provider.order`)."""
    sort: Literal["price", "throughput", "latency"] | None = None
    """Sort providers by this figure (OpenRouter `provider.sort`)."""


class OpenRouter(ApiModel):
    """Settings that only OpenRouter understands; sent to no other base URL."""

    providers: Providers = Field(default_factory=Providers)
    """Provider routing."""


class Reasoning(ApiModel):
    """How much the model shall think."""

    effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    """Reasoning effort; none switches reasoning off. Left out: the model's own default."""


class Sampling(ApiModel):
    """Sampling parameters, sent as they are; what is left out is not sent."""

    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    """Sampling temperature, 0 to 2."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Nucleus sampling: share of probability mass, above 0 and up to 1."""
    seed: Annotated[int, Field(ge=0, le=2**53)] | None = None
    """Seed for servers that support it."""
    stop: Annotated[list[ShortText], Field(min_length=1, max_length=4)] | None = None
    """Strings that end a reply."""


class Model(ApiModel):
    """The model and its OpenAI-compatible server."""

    name: ShortText = DEFAULT_MODEL
    """Model name as the server knows it."""
    base_url: Annotated[HttpURL, Field(alias="baseURL")] = OPENROUTER_URL
    """Base URL of an OpenAI-compatible API."""
    api_key_secret_ref: SecretKeyRef | None = None
    """The API key. Left out: the server needs none (on one machine: OPENROUTER_API_KEY or OPENAI_API_KEY)."""
    max_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Limit of one reply in tokens. Left out: the model's own."""
    sampling: Sampling = Field(default_factory=Sampling)
    """Sampling parameters."""
    reasoning: Reasoning = Field(default_factory=Reasoning)
    """Reasoning parameters."""
    open_router: OpenRouter = Field(default_factory=OpenRouter)
    """OpenRouter's own settings."""
    extra_body: dict[str, Any] | None = Field(default=None, max_length=64)
    """More fields for the request body, sent as they are."""
    timeout_seconds: Annotated[int, Field(ge=1, le=86400)] = 600
    """Total time of one model call in seconds, retries not included."""
    outage_timeout_seconds: Annotated[int, Field(ge=1, le=604800)] = 600
    """How long a server that is down is waited for, in seconds, before the waiting prompts fail and later run again."""
