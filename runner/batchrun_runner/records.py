"""The records that the runner keeps: prompts as planned, trajectory rows, ledger entries. Pure data, no I/O."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from batchrun_api.outcomes import Outcome, Reason
from batchrun_api.own_container import AS_THE_RUN_SAYS, OwnContainer
from batchrun_runner.prompt_keys import sample_of


@dataclass(frozen=True, slots=True)
class RowFile:
    """A file that a row brings along."""

    path: str
    """Absolute, or relative to the working directory."""
    text: str = ""
    base64: str = ""
    """The content where it is not `text`."""

    @property
    def data(self) -> bytes:
        """Its content."""
        return base64.b64decode(self.base64) if self.base64 else self.text.encode()

    @property
    def size_bytes(self) -> int:
        """Of its content."""
        return len(self.data)


@dataclass(frozen=True, slots=True)
class Verify:
    """How the work of a prompt is judged, in its sandbox, after the agent has ended."""

    command: str
    files: tuple[RowFile, ...] = ()
    """Put in place only then."""
    timeout_seconds: int | None = None
    """None: `sandbox.commandTimeoutSeconds`."""


@dataclass(frozen=True, slots=True)
class Collect:
    """What is brought out of a prompt's sandbox when its agent has ended."""

    paths: tuple[str, ...] = ()
    """Files and folders, absolute or relative to the working directory."""
    command: str = ""
    """Its standard output is kept; empty: none."""
    restore: str = ""
    """Brings that output's effect back where the work is judged again; empty: cannot be done."""
    timeout_seconds: int | None = None
    """Of the command; None: `sandbox.commandTimeoutSeconds`."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that was brought out."""

    path: str
    size_bytes: int
    mode: int = 0
    """Permission bits."""
    sha256: str = ""
    """Of its content, in hex."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What was not brought out; `path` is empty where it is all of it."""

    path: str
    why: str


@dataclass(frozen=True, slots=True)
class Artifacts:
    """What was brought out of a sandbox, and what was not."""

    place: str = ""
    """Prefix of the keys in the run's folder; empty: nothing was to be brought out."""
    work: str = ""
    """What the prompt is without its verifier."""
    files: tuple[Artifact, ...] = ()
    has_output: bool = False
    """Whether a command's output is there."""
    left_out: tuple[LeftOut, ...] = ()
    more_left_out: int = 0
    """Beyond those that are listed."""


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
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of every command in the sandbox."""
    files: tuple[RowFile, ...] = ()
    """Put into the sandbox before the agent."""
    setup: str = ""
    """Shell command that is run after that and before the agent; empty: none."""
    timeout_seconds: int | None = None
    """Time limit of this prompt; None: `agent.timeoutSeconds`."""
    max_turns: int | None = None
    """Model calls for this prompt; None: `agent.maxTurns`."""
    verify: Verify | None = None
    collect: Collect | None = None
    work: str = ""
    """Its key without verifier and sample (docs/decisions/0014); only of rows with `collect`."""
    container: OwnContainer = AS_THE_RUN_SAYS
    """Its own user and resources."""

    @property
    def label(self) -> str:
        """What people call it: `prompt 3`, or `prompt 3, sample 1` for samples beyond the first."""
        sample = sample_of(self.key)
        return f"prompt {self.index}, sample {sample}" if sample else f"prompt {self.index}"

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Self:
        """From the object that a JSON encoder makes of a row. Raises ValueError, TypeError or KeyError."""
        values = dict(document)
        if "files" in values:
            values["files"] = _files(values["files"])
        if "verify" in values:
            verify = values["verify"]
            values["verify"] = Verify(verify["command"], _files(verify["files"]), verify["timeout_seconds"])
        if "collect" in values:
            collect = dict(values["collect"])
            values["collect"] = Collect(**(collect | {"paths": tuple(collect["paths"])}))
        if "container" in values:
            values["container"] = OwnContainer.model_validate(values["container"])
        return cls(**values)


def _files(documents: Any) -> tuple[RowFile, ...]:
    return tuple(RowFile(**document) for document in documents)


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
class Verification:
    """What a verifier said."""

    reward: float | None = None
    """None: it gave no verdict."""
    ran: bool = False
    """Its command was run, to its end or its timeout."""
    exit_code: int = 0
    timed_out: bool = False
    output: str = ""
    """Bounded; head and tail where it was longer."""
    fault: str = ""
    """Why there is no verdict, for people."""
    seconds: float = 0.0

    def with_reward(self, reward: float) -> "Verification":
        """The same with its verdict."""
        return replace(self, reward=reward)

    def with_fault(self, fault: str) -> "Verification":
        """The same without one."""
        return replace(self, fault=fault)


NOT_VERIFIED = Verification()
NO_ARTIFACTS = Artifacts()


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
    """Until the sandbox was ready for the agent: its image, its start, the row's files and setup."""
    verification: Verification = NOT_VERIFIED
    artifacts: Artifacts = NO_ARTIFACTS
