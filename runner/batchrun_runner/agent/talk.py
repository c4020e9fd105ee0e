"""The state of one prompt: what is sent, what is kept, and what is counted. No I/O."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import InitVar, dataclass, field
from typing import Any

from batchrun_api.outcomes import Outcome, Reason
from batchrun_api.toolsets import ALL_TOOLS
from batchrun_runner.agent.conversation import Turn, conversation
from batchrun_runner.model.calls import ToolCall
from batchrun_runner.model.clean import dumps
from batchrun_runner.model.failures import Failure
from batchrun_runner.model.reply import Finish, Reply
from batchrun_runner.records import PromptResult, ToolStat, Usage
from batchrun_runner.text import clean_text

CLOSING = "No more tool calls are possible. Give your final answer now, from what you have found so far."
"""Sent with the closing call, and never kept: in a trajectory the answer follows the last tool turn."""

_UNUSABLE = {Finish.EMPTY: Reason.EMPTY_REPLY, Finish.UNPARSED_CALL: Reason.UNPARSED_TOOL_CALL}


@dataclass(frozen=True, slots=True)
class End:
    """How a prompt ended."""

    outcome: Outcome
    reason: Reason | None = None
    message: str = ""
    partial: bool = False
    """It ended after unusable replies."""


class Stopwatch:
    """Adds up the time that passes while it runs."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Counts the time in it, also when an error or the time limit ends it."""
        start = self._monotonic()
        try:
            yield
        finally:
            self.seconds += self._monotonic() - start


@dataclass(slots=True)
class Talk:
    """One prompt's conversation. `unsaved`: messages that are sent before the prompt and never kept."""

    prompt: str
    system_prompt: str | None
    unsaved: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    monotonic: InitVar[Callable[[], float]]
    sample: int = 0
    """Which sample of its prompt it is."""
    messages: list[dict[str, Any]] = field(init=False)
    turns: list[Turn] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    """Of all replies, and of the models that tools asked."""
    api_calls: int = 0
    """Replies, the closing one included."""
    tool_stats: dict[str, ToolStat] = field(default_factory=dict)
    invalid_tool_calls: int = 0
    unusable_replies: int = 0
    """In a row, up to now."""
    unusable_reason: Reason | None = None
    unusable_turn: Turn | None = None
    """The last reply, if it cannot be sent back; kept only when it stays the last."""
    for_model: Stopwatch = field(init=False)
    in_tools: Stopwatch = field(init=False)
    last_prompt_tokens: int = 0
    """Of the last reply; the next prompt is longer, unless the server cuts it (b16)."""
    held_up_by: Failure | None = None
    """Why the call that is asked now has no reply yet; None: nothing has gone wrong with it."""

    def __post_init__(self, monotonic: Callable[[], float]) -> None:
        self.for_model, self.in_tools = Stopwatch(monotonic), Stopwatch(monotonic)
        before = _one_system_message(self.system_prompt, self.unsaved)
        self.messages = [*before, {"role": "user", "content": self.prompt}]

    @property
    def tool_names(self) -> tuple[str, ...]:
        """Names of the offered tools."""
        return tuple(tool["function"]["name"] for tool in self.tools)

    def hold_up(self, failure: Failure) -> None:
        """Note what holds the present call up."""
        self.held_up_by = failure

    def add_reply(self, reply: Reply) -> None:
        """Count a reply and keep it. An unusable one cannot be sent back: the same request is asked again."""
        self._count(reply)
        self.unusable_turn = None
        if reply.finish in _UNUSABLE:
            self.count_use(used=False, reason=_UNUSABLE[reply.finish])
            self.unusable_turn = Turn(reply.text, reply.reasoning, reply.has_reasoning)
            return
        calls = reply.calls if reply.finish is Finish.CALLS else ()
        self.turns.append(Turn(reply.text, reply.reasoning, reply.has_reasoning, calls))
        self.messages.append(reply.message)

    def add_closing_turn(self, reply: Reply) -> None:
        """Count and keep the last reply. Calls that it makes all the same are left out, for nobody runs them."""
        self._count(reply)
        if reply.text.strip() or reply.reasoning:
            self.turns.append(Turn(reply.text, reply.reasoning, reply.has_reasoning))

    def closing_messages(self) -> list[dict[str, Any]]:
        """What is sent with the closing call."""
        return [*self.messages, {"role": "user", "content": CLOSING}]

    def count_use(self, *, used: bool, reason: Reason) -> None:
        """Count replies in a row that nothing could be done with; `reason` is why this one was not of use."""
        self.unusable_replies = 0 if used else self.unusable_replies + 1
        self.unusable_reason = None if used else reason

    def fault_of(self, call: ToolCall) -> str | None:
        """Why a call cannot be run, in words for the model; None: it can."""
        if call.name not in self.tool_names:
            offered = ", ".join(self.tool_names) or "none"
            return f"unknown tool {call.name!r}; the tools are: {offered}"
        return call.error or None

    def add_refusal(self, call: ToolCall, fault: str) -> None:
        """Answer a call that was not run. It counts as a failure of its tool, if there is one of that name (b18)."""
        self.invalid_tool_calls += 1
        if call.name in ALL_TOOLS or call.name in self.tool_names:
            self._count_call(call.name, failed=True)
        self._add_tool_message(call, _error(fault))

    def add_result(self, call: ToolCall, content: str, *, failed: bool) -> None:
        """Answer a call with what its tool said."""
        self._count_call(call.name, failed=failed)
        self._add_tool_message(call, content)

    def result(self, end: End, toolsets: tuple[str, ...], seconds: float) -> PromptResult:
        """The prompt as it ended. Calls that were not answered get a note, so that each has one result (b17)."""
        if self.unusable_turn is not None and (self.unusable_turn.text or self.unusable_turn.reasoning):
            self.turns.append(self.unusable_turn)
        for turn in self.turns[-1:]:
            for call in turn.calls[len(turn.results) :]:
                self._add_tool_message(call, _error(f"not run or not finished: {end.message or end.outcome}"))
        return PromptResult(
            outcome=end.outcome,
            reason=end.reason,
            message=end.message,
            conversations=conversation(self.system_prompt, self.prompt, self.turns),
            partial=end.partial,
            api_calls=self.api_calls,
            toolsets=toolsets,
            tools=dumps(self.tools).decode(),
            tool_stats=self.tool_stats,
            invalid_tool_calls=self.invalid_tool_calls,
            usage=self.usage,
            assistant_turns=len(self.turns),
            turns_with_reasoning=sum(turn.has_reasoning for turn in self.turns),
            seconds=seconds,
            model_seconds=self.for_model.seconds,
            tool_seconds=self.in_tools.seconds,
        )

    def _count(self, reply: Reply) -> None:
        self.held_up_by = None
        self.api_calls += 1
        usage = reply.usage
        # Some servers leave cached tokens out of the prompt's, so a fall that these explain is none.
        if 0 < usage.prompt_tokens + usage.cached_tokens < self.last_prompt_tokens:
            usage += Usage(shortened_prompts=1)
        self.last_prompt_tokens = usage.prompt_tokens
        self.usage += usage

    def _count_call(self, name: str, *, failed: bool) -> None:
        self.tool_stats[name] = self.tool_stats.get(name, ToolStat()) + ToolStat(1, int(not failed), int(failed))

    def _add_tool_message(self, call: ToolCall, content: str) -> None:
        content = clean_text(content)
        self.turns[-1].results.append(content)
        self.messages.append({"role": "tool", "tool_call_id": call.id, "content": content})


def _one_system_message(system_prompt: str | None, unsaved: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages before the prompt; system prompts at the start are joined, for templates take one."""
    messages = [dict(message) for message in unsaved]
    if system_prompt is None:
        return messages
    if messages and messages[0]["role"] == "system":
        return [{"role": "system", "content": f"{system_prompt}\n\n{messages[0]['content']}"}, *messages[1:]]
    return [{"role": "system", "content": system_prompt}, *messages]


def _error(message: str) -> str:
    return dumps({"error": message}).decode()
