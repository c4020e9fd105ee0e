"""The records that the runner keeps: prompts as planned, trajectory rows, ledger entries. Pure data, no I/O."""

from dataclasses import dataclass, field
from typing import Any

from batchrun_api.outcomes import Outcome, Reason


@dataclass(frozen=True, slots=True)
class PromptRow:
    """One valid row of the data set."""

    index: int
    """Row number, from 0 over valid rows of the current data set."""
    key: str
    """What the prompt is (docs/decisions/0004): digest of its acting fields, `-<occurrence>`, `-<sample>`."""
    prompt: str
    image: str = ""
    """Container image; empty: the run's default."""
    cwd: str = ""
    """Working directory in the sandbox; empty: the image's own."""
    id: str = ""
    """The row's own name."""
    extra: str = "{}"
    """The row's unknown keys as one JSON object."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the server reported them, summed over the calls of one prompt."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0
    cached_tokens: int = 0
    calls_without_usage: int = 0
    """Replies that carried no usage; their tokens are in no sum."""
    shortened_prompts: int = 0
    """Replies to a prompt of fewer tokens than the one before: the server had cut the conversation in silence."""

    @property
    def total_tokens(self) -> int:
        """Prompt and completion tokens."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            self.cached_tokens + other.cached_tokens,
            self.calls_without_usage + other.calls_without_usage,
            self.shortened_prompts + other.shortened_prompts,
        )


@dataclass(frozen=True, slots=True)
class ToolStat:
    """Calls of one tool."""

    count: int = 0
    success: int = 0
    failure: int = 0

    def __add__(self, other: "ToolStat") -> "ToolStat":
        return ToolStat(self.count + other.count, self.success + other.success, self.failure + other.failure)


@dataclass(frozen=True, slots=True)
class PromptResult:
    """How one prompt ended, as the agent hands it over; `trajectory.to_row` makes the JSON row of it."""

    outcome: Outcome
    reason: Reason | None = None
    message: str = ""
    """For people: details of the reason. Never holds a secret or an ephemeral prompt."""
    conversations: list[dict[str, Any]] = field(default_factory=list)
    """Turns `{from, value, tool_calls}`; the first is the saved system prompt where there is one."""
    partial: bool = False
    """It ended after unusable replies."""
    api_calls: int = 0
    toolsets: tuple[str, ...] = ()
    """Toolsets that were offered to the model."""
    tools: str = "[]"
    """The offered tool schemas as a JSON string."""
    tool_stats: dict[str, ToolStat] = field(default_factory=dict)
    """By tool that was called and exists."""
    invalid_tool_calls: int = 0
    """Calls that could not be run: unknown tool, unparsable arguments."""
    usage: Usage = field(default_factory=Usage)
    assistant_turns: int = 0
    turns_with_reasoning: int = 0
    sandbox_image: str = ""
    boot_id: str = ""
    """Boot id of the sandbox, as its hello said; empty when none was reached."""
    seconds: float = 0.0
    """From the start of the prompt to its end, on a monotonic clock; the three below are parts of it."""
    model_seconds: float = 0.0
    """Waiting for the model: its answers, and everything before a call that was asked again."""
    tool_seconds: float = 0.0
    """In tool calls."""
    sandbox_seconds: float = 0.0
    """Waiting for the sandbox to be there, its image included."""
