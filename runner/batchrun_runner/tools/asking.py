"""Models that tools ask: the run's own, or others that the spec names (docs/decisions/0020)."""

import asyncio
import re
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from batchrun_api.outcomes import Reason
from batchrun_api.spec.model import Model
from batchrun_api.spec.tool_models import ModelRef
from batchrun_runner.model.errors import ModelError
from batchrun_runner.model.reply import Finish
from batchrun_runner.prompt_keys import sample_of
from batchrun_runner.settings import RunSettings
from batchrun_runner.tools.context import ToolContext, ToolErrorKind, ToolFailure

if TYPE_CHECKING:
    from batchrun_runner.model.client import ModelClient
    from batchrun_runner.model.images import GeneratedImage

T = TypeVar("T")
_ECHOED_DATA = re.compile(r"[A-Za-z0-9+/=_-]{200,}")
"""Data of a picture in a server's words, which no trajectory shall hold."""
_CUT = "[the answer was cut at the limit of tokens]"


@dataclass(frozen=True, slots=True)
class AskedModel:
    """One model that tools ask, shared by all prompts."""

    name: str
    client: "ModelClient"
    seconds: int
    """For one question with all its repetitions."""

    async def answer(self, messages: list[dict[str, Any]], context: ToolContext) -> str:
        """The text of its answer. Raises ToolFailure; what it used is counted for the prompt either way."""
        reply = await self._within_time(self.client.query(messages, [], sample=sample_of(context.key)))
        context.usage += reply.usage
        text = reply.text.strip()
        if reply.finish is Finish.FILTERED:
            raise self._failure(Reason.CONTENT_FILTERED, "the answer was ended by a content filter")
        if not text:
            raise self._failure(Reason.EMPTY_REPLY, "the answer is empty")
        return f"{text}\n{_CUT}" if reply.finish is Finish.CUT else text

    async def image(self, prompt: str, size: str, context: ToolContext) -> "GeneratedImage":
        """A picture that it makes. Raises ToolFailure."""
        image = await self._within_time(self.client.image(prompt, size))
        context.usage += image.usage
        return image

    async def _within_time(self, asked: Awaitable[T]) -> T:
        """What comes of a call. Raises ToolFailure where it fails for good or takes too long."""
        try:
            async with asyncio.timeout(self.seconds) as limit:
                return await asked
        except TimeoutError:
            if not limit.expired():
                raise
            message = f"{self.name} did not answer within {self.seconds} s"
            raise ToolFailure(ToolErrorKind.TIMEOUT, message) from None
        except ModelError as error:
            raise self._failure(error.reason, error.message) from error

    def _failure(self, reason: Reason, message: str) -> ToolFailure:
        kind = ToolErrorKind.TIMEOUT if reason is Reason.TIMEOUT else ToolErrorKind.PROVIDER_ERROR
        return ToolFailure(kind, f"{self.name}: {reason}: {_ECHOED_DATA.sub('(data)', message)}")


class AskedModels:
    """The clients of all models that the tools of a run ask: one for each model at each server with each key.

    So rate limits and outages of one hold up no questions to another. They end with `stack`.
    """

    def __init__(self, settings: RunSettings, own: "ModelClient", stack: AsyncExitStack) -> None:
        """`own`: the client of the run's own model, who asks it with all that the spec says of it."""
        self._settings = settings
        self._own = own
        self._stack = stack
        self._made: dict[tuple[str, str, str | None], ModelClient] = {}

    async def of(self, purpose: str, ref: ModelRef | None) -> AskedModel:
        """The model of a tool; `ref` None: the run's own."""
        own = self._settings.spec.model
        if ref is None:
            return AskedModel(own.name, self._own, own.timeout_seconds)
        model = model_of(ref, own)
        key = self._settings.key_for(purpose, ref)
        place = (model.base_url, model.name, key)
        if place not in self._made:
            self._made[place] = await self._stack.enter_async_context(self._client(model, key))
        return AskedModel(model.name, self._made[place], own.timeout_seconds)

    def _client(self, model: Model, key: str | None) -> "ModelClient":
        from batchrun_runner.model.client import POLICY, ModelClient  # noqa: PLC0415 - takes long to load

        policy = replace(POLICY, outage_seconds=model.outage_timeout_seconds)
        return ModelClient(model, key, secrets=self._settings.secrets, policy=policy)


def model_of(ref: ModelRef, own: Model) -> Model:
    """How a model that a tool names is asked: by the run's times, and at the run's server in its dialect and by its
    providers. Sampling, reasoning and the like are the own model's alone.
    """
    fields: dict[str, Any] = {
        "name": ref.name,
        "base_url": ref.base_url or own.base_url,
        "timeout_seconds": own.timeout_seconds,
        "outage_timeout_seconds": own.outage_timeout_seconds,
    }
    if ref.is_at(own.base_url):
        fields |= {"server": own.server, "stream": own.stream, "open_router": own.open_router}
    return Model(**fields)
