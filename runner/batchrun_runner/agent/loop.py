"""The agent loop: ask the model, run the tools that it calls, until it answers or a limit ends it.

run      one prompt from start to end
step     one turn: the limits, then query, then execute
query    one model call
execute  one tool call
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from batchrun_api.outcomes import Outcome, Reason
from batchrun_api.spec.agent import Agent as AgentSpec
from batchrun_api.spec.agent import PrefillMessage
from batchrun_runner.agent.errors import PromptFailed
from batchrun_runner.agent.talk import End, Talk
from batchrun_runner.model.calls import ToolCall
from batchrun_runner.model.errors import FailPrompt
from batchrun_runner.model.failures import Failure
from batchrun_runner.model.reply import Finish, Reply
from batchrun_runner.prompt_keys import sample_of
from batchrun_runner.records import PromptResult, PromptRow, Usage
from batchrun_runner.settings import RunSettings


class ToolResult(Protocol):
    """What a tool said."""

    @property
    def content(self) -> str:
        """For the model."""
        ...

    @property
    def failed(self) -> bool:
        """An error field that is not null, success false, or a refused call; not a command that exits non-zero."""
        ...


class Toolbox(Protocol):
    """The tools of one prompt."""

    @property
    def schemas(self) -> list[dict[str, Any]]:
        """The offered tools as OpenAI function schemas."""
        ...

    async def execute(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Run one of the offered tools, once. Raises PromptFailed when the prompt cannot go on."""
        ...

    def take_usage(self) -> Usage:
        """What models that tools asked have used since the last time this was called."""
        ...


class Model(Protocol):
    """What the loop needs of `model.client.ModelClient`."""

    async def query(
        self,
        messages: Sequence[dict[str, Any]],
        tools: list[dict[str, Any]],
        *,
        final: bool = False,
        sample: int = 0,
        held: Callable[[Failure], None] = ...,
    ) -> Reply:
        """The model's next turn; `sample` changes the seed, `held` hears what holds it up.

        Raises FailPrompt or StopRun.
        """
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """What ends a prompt besides an answer."""

    max_turns: int = 10
    """Model calls; the closing call comes on top."""
    timeout_seconds: float | None = None
    """For the whole prompt. None: no limit."""
    max_total_tokens: int | None = None
    """Prompt and completion tokens, as the server reports them. None: no limit."""
    max_unusable_replies: int = 3
    """In a row: empty replies, calls that the server did not parse, turns whose every call is invalid."""


@dataclass(frozen=True, slots=True)
class Agent:
    """Works on prompts; holds nothing of any of them."""

    model: Model
    limits: Limits = Limits()
    system_prompt: str | None = None
    ephemeral_system_prompt: str | None = None
    """Sent after the saved system prompt, never kept."""
    prefill_messages: tuple[PrefillMessage, ...] = ()
    monotonic: Callable[[], float] = time.monotonic

    @classmethod
    def from_settings(cls, model: Model, settings: RunSettings) -> "Agent":
        """The agent of a run."""
        spec: AgentSpec = settings.spec.agent
        return cls(
            model,
            Limits(spec.max_turns, spec.timeout_seconds, spec.max_total_tokens),
            spec.system_prompt,
            settings.ephemeral_system_prompt,
            settings.prefill_messages,
        )

    def within(self, row: PromptRow) -> "Agent":
        """The agent with the limits of a row, which can only be narrower."""
        if row.max_turns is None and row.timeout_seconds is None:
            return self
        limits = self.limits
        seconds = [value for value in (row.timeout_seconds, limits.timeout_seconds) if value is not None]
        turns = min(row.max_turns or limits.max_turns, limits.max_turns)
        return replace(self, limits=replace(limits, max_turns=turns, timeout_seconds=min(seconds, default=None)))

    async def run(self, row: PromptRow, toolbox: Toolbox, toolsets: tuple[str, ...] = ()) -> PromptResult:
        """Work on one prompt. Raises StopRun; whatever ends only this prompt is in the result."""
        start = self.monotonic()
        sample = sample_of(row.key)
        talk = Talk(row.prompt, self.system_prompt, self._unsaved(), toolbox.schemas, self.monotonic, sample)
        try:
            async with asyncio.timeout(self.limits.timeout_seconds) as time_limit:
                while (end := await self.step(talk, toolbox)) is None:
                    pass
        except TimeoutError:
            if not time_limit.expired():
                raise
            end = self.out_of_time(talk)
        except (FailPrompt, PromptFailed) as error:
            end = End(Outcome.FAILED, error.reason, error.message)
        return talk.result(end, toolsets, seconds=self.monotonic() - start)

    async def step(self, talk: Talk, toolbox: Toolbox) -> End | None:
        """One turn. None: go on."""
        end = await self.check_limits(talk)
        if end is not None:
            return end
        reply = await self.query(talk)
        match reply.finish:
            case Finish.ANSWER:
                return End(Outcome.COMPLETED)
            case Finish.CALLS:
                ran = [await self.execute(call, talk, toolbox) for call in reply.calls]
                talk.count_use(used=any(ran), reason=Reason.INVALID_TOOL_CALLS)
            case Finish.CUT:
                return End(Outcome.FAILED, Reason.TRUNCATED_REPLY, "the reply ended at the limit of tokens", True)
            case Finish.FILTERED:
                return End(Outcome.FAILED, Reason.CONTENT_FILTERED, "the reply was ended by a content filter")
        return self.check_usable(talk)

    async def check_limits(self, talk: Talk) -> End | None:
        """Every limit but the time, which runs by itself. At the last turn: one closing call without tools."""
        limits = self.limits
        if limits.max_total_tokens is not None and talk.usage.total_tokens >= limits.max_total_tokens:
            tokens = f"{talk.usage.total_tokens} of {limits.max_total_tokens} tokens are used"
            return End(Outcome.TRUNCATED, Reason.TOKEN_LIMIT, tokens)
        if talk.api_calls < limits.max_turns:
            return None
        message = f"no answer after {limits.max_turns} model calls"
        try:
            with talk.for_model.running():
                reply = await self.model.query(
                    talk.closing_messages(), talk.tools, final=True, sample=talk.sample, held=talk.hold_up
                )
            talk.add_closing_turn(reply)
        except FailPrompt as error:
            message += f"; the closing call failed: {error}"
        return End(Outcome.TRUNCATED, Reason.MAX_TURNS, message)

    def out_of_time(self, talk: Talk) -> End:
        """Time that the server took is no result: the prompt failed, and runs again. Else its own length cut it."""
        message = f"not done after {self.limits.timeout_seconds} s"
        if talk.held_up_by is not None:
            return End(Outcome.FAILED, talk.held_up_by.reason, f"{message}: {talk.held_up_by.message}")
        if talk.api_calls == 0:
            return End(Outcome.FAILED, Reason.TIMEOUT, f"no reply in {self.limits.timeout_seconds} s")
        return End(Outcome.TRUNCATED, Reason.TIME_LIMIT, message)

    def check_usable(self, talk: Talk) -> End | None:
        """Too many replies in a row that nothing could be done with?"""
        if talk.unusable_replies < self.limits.max_unusable_replies:
            return None
        return End(Outcome.FAILED, talk.unusable_reason, f"{talk.unusable_replies} unusable replies in a row", True)

    async def query(self, talk: Talk) -> Reply:
        """One model call."""
        with talk.for_model.running():
            reply = await self.model.query(talk.messages, talk.tools, sample=talk.sample, held=talk.hold_up)
        talk.add_reply(reply)
        return reply

    async def execute(self, call: ToolCall, talk: Talk, toolbox: Toolbox) -> bool:
        """One tool call. False: something is wrong with the call itself; the model is told, and nothing is run."""
        fault = talk.fault_of(call)
        if fault is not None:
            talk.add_refusal(call, fault)
            return False
        try:
            with talk.in_tools.running():
                result = await toolbox.execute(call.name, call.arguments or {})
        finally:
            # Paid for, whatever ended the call.
            talk.usage += toolbox.take_usage()
        talk.add_result(call, result.content, failed=result.failed)
        return True

    def _unsaved(self) -> list[dict[str, Any]]:
        """Messages that are sent and never kept, before the prompt."""
        messages = [{"role": message.role, "content": message.content} for message in self.prefill_messages]
        if self.ephemeral_system_prompt:
            return [{"role": "system", "content": self.ephemeral_system_prompt}, *messages]
        return messages
