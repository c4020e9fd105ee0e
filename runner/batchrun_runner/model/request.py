"""The request body, per flavour of server. tests/golden/model holds a snapshot of each."""

from collections.abc import Sequence
from enum import Enum
from typing import Any
from urllib.parse import urlsplit

from batchrun_api.spec.model import Model, Providers

Message = dict[str, Any]
"""One message of a chat completion request."""


class Flavour(Enum):
    """In whose dialect a request is; the values are those of `model.server`."""

    OPENROUTER = "OpenRouter"
    OPENAI = "OpenAI"
    VLLM = "VLLM"
    """vLLM, SGLang."""
    OTHER = "Other"
    """llama.cpp, Ollama, gateways."""


def flavour_of(model: Model) -> Flavour:
    """As `model.server` says, or by the host of the base URL."""
    if model.server != "Auto":
        return Flavour(model.server)
    if model.asks_openrouter:
        return Flavour.OPENROUTER
    return Flavour.OPENAI if urlsplit(model.base_url).hostname == "api.openai.com" else Flavour.OTHER


_WITH_TOOLS_ONLY = ("tool_choice", "parallel_tool_calls")
"""Fields that servers refuse in a request without tools."""


def standing_fields(model: Model) -> dict[str, Any]:
    """The fields of every request of a run: all but `messages` and `tools`."""
    flavour = flavour_of(model)
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
    if model.stream:
        fields |= {"stream": True, "stream_options": {"include_usage": True}}
    return fields | (model.extra_body or {})


def fields_of_sample(fields: dict[str, Any], sample: int) -> dict[str, Any]:
    """The standing fields as a sample is asked with them: with one seed for all, all answers would be the same."""
    return {**fields, "seed": fields["seed"] + sample} if sample and "seed" in fields else fields


def body_of(fields: dict[str, Any], messages: Sequence[Message], tools: object) -> dict[str, Any]:
    """The request body. `tools`: the offered schemas; empty ones are left out, for servers refuse an empty list."""
    body = {**fields, "messages": messages}
    if tools:
        body["tools"] = tools
    else:
        for field in _WITH_TOOLS_ONLY:
            body.pop(field, None)
    return body


def _reasoning(model: Model, flavour: Flavour) -> dict[str, Any]:
    effort = model.reasoning.effort
    if effort is None:
        return {}
    if flavour is Flavour.OPENROUTER:
        return {"reasoning": {"enabled": False} if effort == "none" else {"effort": effort}}
    if flavour is Flavour.VLLM and effort == "none":
        return {"chat_template_kwargs": {"enable_thinking": False}}
    return {"reasoning_effort": effort}


def _provider(providers: Providers) -> dict[str, Any]:
    wire_names = {
        "only": providers.allowed,
        "ignore": providers.ignored,
        "order": providers.order,
        "sort": providers.sort,
    }
    return {name: value for name, value in wire_names.items() if value is not None}
