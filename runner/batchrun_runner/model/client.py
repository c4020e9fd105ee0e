"""Asking the model: one query in, one reply in normal form out, or a ModelError. Importing this imports openai."""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from batchrun_api.outcomes import Reason
from batchrun_api.spec.model import Model
from batchrun_runner.model.clean import dumps
from batchrun_runner.model.failures import Answer, Failure, of_answer
from batchrun_runner.model.gate import Caller, Gate, Held, Standstill, Tell
from batchrun_runner.model.guard import SecretsGuard, secret_values
from batchrun_runner.model.images import GeneratedImage, image_body, of_image_answer, read_image
from batchrun_runner.model.policy import RetryPolicy, Surroundings
from batchrun_runner.model.reply import Reply, read_reply
from batchrun_runner.model.request import Message, body_of, fields_of_sample, standing_fields
from batchrun_runner.model.retry import until_done
from batchrun_runner.model.wire import CHAT, IMAGES, ConnectionLost, Wire
from batchrun_runner.settings import RunSettings

REAL_SURROUNDINGS = Surroundings(
    monotonic=time.monotonic,
    wall_clock=time.time,
    random=random.Random().random,  # noqa: S311 - jitter
)
POLICY = RetryPolicy()
_Read = Callable[[Answer, float, bytes], dict[str, Any] | Failure]


def _tell_nobody(_: Standstill) -> None: ...


class ModelClient:
    """The model of a run. One for a process: it holds the connection pool, which all prompts share.

    `timeout_seconds` of the model is the deadline of each attempt as a whole, so that a server which trickles bytes is
    cut off like one that says nothing.
    """

    def __init__(
        self,
        model: Model,
        api_key: str | None = None,
        *,
        secrets: Sequence[str | None] = (),
        policy: RetryPolicy = POLICY,
        around: Surroundings = REAL_SURROUNDINGS,
        tell: Tell = _tell_nobody,
    ) -> None:
        """`secrets`: texts that no message may quote, besides the key. `tell` hears why calls wait."""
        self._fields = standing_fields(model)
        self._timeout_seconds = model.timeout_seconds
        self._calls_in_text = model.calls_in_text == "Parse"
        self._policy = policy
        self._around = around
        self._guard = SecretsGuard([*secrets, *secret_values(model.extra_body)], api_key)
        self._wire = Wire(model.base_url, api_key)
        self._gate = Gate(policy, around, tell)

    @classmethod
    def from_settings(cls, settings: RunSettings, tell: Tell = _tell_nobody) -> Self:
        """The client of a run."""
        model = settings.spec.model
        return cls(
            model,
            settings.api_key,
            secrets=settings.secrets,
            policy=replace(POLICY, outage_seconds=model.outage_timeout_seconds),
            tell=tell,
        )

    async def query(
        self,
        messages: Sequence[Message],
        tools: list[dict[str, Any]],
        *,
        final: bool = False,
        sample: int = 0,
        held: Held = lambda failure: None,
    ) -> Reply:
        """The model's next turn. `final`: no tools are offered, so that it has to answer.

        `sample` is added to the seed, where there is one. `held` hears of each failure that holds this call up. Raises
        FailPrompt or StopRun once everything repeatable was repeated as the policy says.
        """
        offered = [] if final else tools
        body = dumps(body_of(fields_of_sample(self._fields, sample), messages, offered))
        return read_reply(
            await self._until_done(body, CHAT, of_answer, held),
            offered,
            taken=_call_ids(messages),
            salt=str(len(messages)),
            calls_in_text=self._calls_in_text,
        )

    async def image(self, prompt: str, size: str = "") -> GeneratedImage:
        """A picture from the images API, `size` as the server calls it (1024x1024). Raises as `query` does."""
        body = dumps(image_body(self._fields["model"], prompt, size))
        return read_image(await self._until_done(body, IMAGES, of_image_answer))

    async def _until_done(
        self, body: bytes, path: str, read: _Read, held: Held = lambda failure: None
    ) -> dict[str, Any]:
        async def attempt() -> dict[str, Any] | Failure:
            # What the server says of failures is made safe here, once for all who hear of them.
            return self._guard.shown(await self._answer(body, path, read))

        answer = await until_done(attempt, self._policy, self._around, self._gate, Caller(held))
        cleaned: dict[str, Any] = self._guard.without_key(answer)
        return cleaned

    async def _answer(self, body: bytes, path: str, read: _Read) -> dict[str, Any] | Failure:
        try:
            async with asyncio.timeout(self._timeout_seconds):
                answer = await self._wire.post(body, path)
        except TimeoutError:
            return Failure(Reason.TIMEOUT, f"no complete reply within {self._timeout_seconds} s", repeatable=True)
        except ConnectionLost as error:
            return Failure(Reason.PROVIDER_ERROR, str(error), repeatable=True, unreachable=error.unreachable)
        return read(answer, self._around.wall_clock(), body)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._wire.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _call_ids(messages: Sequence[Message]) -> set[str]:
    return {call["id"] for message in messages for call in message.get("tool_calls") or ()}
