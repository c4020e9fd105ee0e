"""The request body, per flavour of server. tests/golden/model holds a snapshot of each."""

from collections.abc import Sequence
from enum import Enum
from typing import Any
from urllib.parse import urlsplit

from batchrun_api.spec.model import Model, Providers

Message = dict[str, Any]
"""One message of a chat completion request."""


class Flavour(Enum):
    """Who is asked; decided by the host of the base URL alone."""

    OPENROUTER = "openrouter"
    OPENAI = "openai"
    OTHER = "other"
    """vLLM, SGLang, llama.cpp, Ollama, gateways."""


def flavour_of(base_url: str) -> Flavour:
    """The flavour that a base URL belongs to."""
    host = urlsplit(base_url).hostname or ""
    if host == "openrouter.ai" or host.endswith(".openrouter.ai"):
        return Flavour.OPENROUTER
    return Flavour.OPENAI if host == "api.openai.com" else Flavour.OTHER


def standing_fields(model: Model) -> dict[str, Any]:
    """The fields of every request of a run: all but `messages` and `tools`."""
    flavour = flavour_of(model.base_url)
    fields: dict[str, Any] = {"model": model.name}
    if model.max_tokens is not None:
        # OpenAI's reasoning models refuse the older name; the other servers know only that.
        name = "max_completion_tokens" if flavour is Flavour.OPENAI else "max_tokens"
        fields[name] = model.max_tokens
    fields |= model.sampling.model_dump(exclude_none=True)
    fields |= _reasoning(model, flavour)
    if flavour is Flavour.OPENROUTER:
        provider = _provider(model.open_router.providers)
        if provider:
            fields["provider"] = provider
    return fields | (model.extra_body or {})


def body_of(fields: dict[str, Any], messages: Sequence[Message], tools: object) -> dict[str, Any]:
    """The request body. `tools`: the offered schemas; empty ones are left out, for servers refuse an empty list."""
    body = {**fields, "messages": messages}
    if tools:
        body["tools"] = tools
    return body


def _reasoning(model: Model, flavour: Flavour) -> dict[str, Any]:
    effort = model.reasoning.effort
    if effort is None:
        return {}
    if flavour is Flavour.OPENROUTER:
        return {"reasoning": {"enabled": False} if effort == "none" else {"effort": effort}}
    return {"reasoning_effort": effort}


def _provider(providers: Providers) -> dict[str, Any]:
    wire_names = {
        "only": providers.allowed,
        "ignore": providers.ignored,
        "order": providers.order,
        "sort": providers.sort,
    }
    return {name: value for name, value in wire_names.items() if value is not None}
