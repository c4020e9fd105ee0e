"""Which model answers, and how it is asked."""

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, WithJsonSchema

from batchrun_api.spec.base import ApiModel, HttpURL, Rule, SecretKeyRef, ShortText, given

DEFAULT_MODEL = "anthropic/claude-sonnet-4.6"
OPENROUTER_URL = "https://openrouter.ai/api/v1"
_OPENROUTER_PATTERN = "^https?://([A-Za-z0-9-]+[.])*openrouter[.]ai(:[0-9]*)?(/.*)?$"
_WITHOUT_USER_PATTERN = "^https?://[^/?#@]*([/?#].*)?$"
_WITHOUT_QUERY_PATTERN = "^[^?#]*$"
"""In the common ground of Python's and CEL's expressions."""

# `has`, for the API server judges the default {} of `model` before it fills in what lies below it.
BASE_URL_RULES: tuple[Rule, ...] = (
    Rule(
        cel=f"!has(self.baseURL) || self.baseURL.matches('{_WITHOUT_USER_PATTERN}')",
        message="baseURL must not hold a user name or password, for it is shown and logged: put the key into the "
        "Secret of apiKeySecretRef (on one machine: into OPENAI_API_KEY)",
        holds=lambda self: self.base_url is None or re.search(_WITHOUT_USER_PATTERN, self.base_url) is not None,
    ),
    Rule(
        cel=f"!has(self.baseURL) || self.baseURL.matches('{_WITHOUT_QUERY_PATTERN}')",
        message="baseURL must not hold a query or fragment, for paths are added at its end: leave out what begins "
        "with ? or # (Azure OpenAI needs no api-version at https://NAME.openai.azure.com/openai/v1)",
        holds=lambda self: self.base_url is None or re.search(_WITHOUT_QUERY_PATTERN, self.base_url) is not None,
    ),
)
"""For every object with a `baseURL` of an OpenAI-compatible API."""

NOT_IN_EXTRA_BODY = {
    "model": "use model.name",
    "messages": "the agent makes them; use agent.systemPrompt or agent.prefillMessages",
    "tools": "the distribution chooses them; use distribution",
    "functions": "the distribution chooses them; use distribution",
    "function_call": "use tool_choice",
    "stream": "use model.stream",
    "stream_options": "use model.stream",
    "n": "one reply a call is read; leave it out",
    "max_tokens": "use model.maxTokens",
    "max_completion_tokens": "use model.maxTokens",
    "temperature": "use model.sampling.temperature",
    "top_p": "use model.sampling.topP",
    "seed": "use model.sampling.seed",
    "stop": "use model.sampling.stop",
    "reasoning_effort": "use model.reasoning.effort",
}
"""Fields of a request that are ours, each with what to do instead."""


def not_for_extra_body(field: str, fix: str) -> str:
    """What is said of a field that is ours."""
    return f"{field!r} is not for extraBody: {fix}"


_ANY = {"x-kubernetes-preserve-unknown-fields": True}
_OBJECT = {"type": "object", **_ANY}
_LIST = {"type": "array", "maxItems": 4096, "items": _OBJECT}
_KINDS: dict[str, dict[str, Any]] = {
    "messages": _LIST,
    "tools": _LIST,
    "functions": _LIST,
    "stream": {"type": "boolean"},
    "stream_options": _OBJECT,
    "temperature": {"type": "number"},
    "top_p": {"type": "number"},
}
"""The API server's rules see only fields whose type they know; the others are texts or whole numbers."""
# In YAML 1.1 the bare key n is a boolean: only `checks` refuses it.
_REFUSED_BY_SERVER = {field: fix for field, fix in NOT_IN_EXTRA_BODY.items() if field != "n"}
_EXTRA_BODY_SCHEMA = {
    "type": "object",
    **_ANY,
    "maxProperties": 64,
    "properties": {
        field: {"description": f"Refused: {fix}.", **_KINDS.get(field, {"x-kubernetes-int-or-string": True})}
        for field, fix in _REFUSED_BY_SERVER.items()
    },
    "x-kubernetes-validations": [
        {"rule": f"!has(self.{field})", "message": not_for_extra_body(field, fix), "fieldPath": f".{field}"}
        for field, fix in _REFUSED_BY_SERVER.items()
    ],
}
ExtraBody = Annotated[dict[str, Any], Field(max_length=64), WithJsonSchema(_EXTRA_BODY_SCHEMA)]

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

    @property
    def given(self) -> bool:
        """Whether anything is set."""
        return given(self.allowed, self.ignored, self.order, self.sort) > 0


class OpenRouter(ApiModel):
    """Settings that only OpenRouter understands; refused with any other server."""

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
    """Seed for servers that support it. Sample i of a prompt (samplesPerPrompt) is asked with seed + i."""
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
    server: Literal["Auto", "OpenRouter", "OpenAI", "VLLM", "Other"] = "Auto"
    """Whose dialect requests are in; VLLM: SGLang too. Auto: by the host, Other where that is not known."""
    extra_body: ExtraBody | None = None
    """More fields for the request body, sent as they are."""
    stream: bool = False
    """Ask for replies as a stream, for gateways that cut connections on which nothing moves. Results are the same."""
    calls_in_text: Literal["Fail", "Parse"] = "Fail"
    """Tool calls that the server leaves in the text: fail the prompt (UnparsedToolCall), or parse the usual forms."""
    timeout_seconds: Annotated[int, Field(ge=1, le=86400)] = 600
    """Total time of one model call in seconds, retries not included."""
    outage_timeout_seconds: Annotated[int, Field(ge=1, le=604800)] = 600
    """How long a server that is down is waited for, in seconds, before the waiting prompts fail and later run again."""

    rules: ClassVar[tuple[Rule, ...]] = (
        *BASE_URL_RULES,
        Rule(
            # The API server judges the default {} before it fills in what lies below it.
            cel="!(has(self.openRouter) && has(self.openRouter.providers) && "
            "(has(self.openRouter.providers.allowed) || has(self.openRouter.providers.ignored) || "
            "has(self.openRouter.providers.order) || has(self.openRouter.providers.sort))) || "
            f"self.server == 'OpenRouter' || (self.server == 'Auto' && self.baseURL.matches('{_OPENROUTER_PATTERN}'))",
            message="openRouter.providers works with OpenRouter only: leave it out, or set server to OpenRouter where "
            "baseURL is a gateway to it",
            holds=lambda self: self.asks_openrouter or not self.open_router.providers.given,
        ),
    )

    @property
    def asks_openrouter(self) -> bool:
        """Whether requests are worded for OpenRouter."""
        named = self.server == "OpenRouter"
        return named or (self.server == "Auto" and re.search(_OPENROUTER_PATTERN, self.base_url) is not None)
