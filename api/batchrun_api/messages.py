"""Termination messages and signals: the small words between pods and operator. Hints; the ledger is the truth.

A pod's containers share 12 kB for their messages, and each is cut silently at its share: with 100 sandboxes at 120
bytes. So what counts of a batch pod's container stays below 100 bytes, and only words for people follow it.
"""

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from batchrun_api.outcomes import Outcome, Reason
from batchrun_api.text import shortened_bytes

SANDBOX_MESSAGE_LIMIT_BYTES = 100
MAX_LOST_TO_ONE_SANDBOX = 2
"""Attempts that one sandbox may take down before its prompt fails as the culprit (docs/decisions/0016)."""
STEP_MESSAGE_LIMIT_BYTES = 4000
"""Kubernetes cuts one container's message at 4096 bytes."""
_SHARED_BYTES = 12 * 1024
_OTHER_CONTAINERS = 6
"""Beside the sandboxes: the runner, the init container, and up to four that a webhook or `kubectl debug` adds."""


def batch_message_limit_bytes(sandboxes: int) -> int:
    """Room for the message of a batch's runner in a pod with so many sandboxes."""
    share = _SHARED_BYTES // (sandboxes + _OTHER_CONTAINERS)
    return max(SANDBOX_MESSAGE_LIMIT_BYTES, min(STEP_MESSAGE_LIMIT_BYTES, share))


def sandbox_message(outcome: Outcome, reason: Reason | None) -> str:
    """What a sandbox leaves behind: `completed`, or `failed/ImageUnavailable`."""
    return f"{outcome}/{reason}" if reason else str(outcome)


def parse_sandbox_message(text: str | None) -> tuple[Outcome, Reason | None] | None:
    """The outcome in a sandbox's message, or None where it is not one: any command can write there."""
    outcome, _, reason = (text or "").strip().partition("/")
    try:
        return Outcome(outcome), Reason(reason) if reason else None
    except ValueError:
        return None


class _Message(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    @classmethod
    def parse(cls, text: str | None) -> Any:
        """The message, or None where the text is not one."""
        try:
            return cls.model_validate_json(text or "")
        except ValidationError:
            return None


class BatchMessage(_Message):
    """What the runner of a batch leaves behind: how many prompts ended how; or why it cannot go on."""

    completed: Annotated[int, Field(ge=0, alias="c")] = 0
    truncated: Annotated[int, Field(ge=0, alias="t")] = 0
    discarded: Annotated[int, Field(ge=0, alias="d")] = 0
    failed: Annotated[int, Field(ge=0, alias="f")] = 0
    left: Annotated[int, Field(ge=0, alias="l")] = 0
    reason: Annotated[str, Field(max_length=40, alias="r")] = ""
    """Why it stopped, where it did not end by itself; one of `conditions.Reason`."""
    of_store: Annotated[bool, Field(alias="s")] = False
    """The reason speaks of the store; else, where it speaks of a server, of the model's."""
    message: Annotated[str, Field(exclude=True)] = ""
    """For people: what is wrong, where, and the fix; as much of it as there was room for."""

    model_config = ConfigDict(populate_by_name=True)

    @classmethod
    def parse(cls, text: str | None) -> Any:
        """The message, or None where the text is not one."""
        first, _, words = (text or "").partition("\n")
        found = super().parse(first)
        return found and found.model_copy(update={"message": words})

    def encode(self, limit_bytes: int = SANDBOX_MESSAGE_LIMIT_BYTES) -> str:
        """A line of compact JSON below 100 bytes, then as many words as `limit_bytes` leaves room for.

        The words stand last: where a cut comes earlier than we think, it takes only them.
        """
        first = json.dumps(self.model_dump(by_alias=True, exclude_defaults=True), separators=(",", ":"))
        words = shortened_bytes(self.message, limit_bytes - len(first) - 1)
        return f"{first}\n{words}" if words else first


class StepMessage(_Message):
    """What a plan or merge pod leaves behind; it has the pod's whole 4 kB."""

    reason: str = ""
    """Empty when all is well, else one of `conditions.Reason`."""
    message: str = ""
    """For people: what is wrong, where, and the fix."""
    result: dict[str, Any] = Field(default_factory=dict)
    """merge: `MergeResult` as JSON. plan: nothing, its document is on the log."""

    def encode(self, limit_bytes: int = STEP_MESSAGE_LIMIT_BYTES) -> str:
        """JSON of at most `limit_bytes`: the message is shortened until it fits."""
        message = self.message
        while True:
            text = json.dumps({**self.model_dump(), "message": message}, ensure_ascii=False, separators=(",", ":"))
            excess = len(text.encode()) - limit_bytes
            if excess <= 0 or not message:
                return text
            message = message[: max(0, len(message) - excess - 1)].rstrip() + "…" if len(message) > excess + 1 else ""


class FailureNote(BaseModel):
    """One failed prompt, for status: enough to find it."""

    model_config = ConfigDict(frozen=True)

    prompt_index: int
    sample: int = 0
    id: Annotated[str, Field(max_length=200)] = ""
    reason: str
    message: Annotated[str, Field(max_length=400)] = ""


class PassAtK(BaseModel):
    """The chance that one of k samples of a prompt passes, and over how many prompts that is the mean."""

    model_config = ConfigDict(frozen=True)

    k: int
    value: float
    prompts: int


class RewardFigures(BaseModel):
    """What verifiers said, over the whole run."""

    model_config = ConfigDict(frozen=True)

    count: int
    """Samples that have a reward."""
    mean: float
    pass_at: Annotated[list[PassAtK], Field(max_length=2)]
    """The smallest and the largest k that has an estimate."""


class MergeResult(BaseModel):
    """Figures of the whole run, by prompt: `total = completed + truncated + discarded + failed + not_run`."""

    model_config = ConfigDict(frozen=True)

    total: int
    completed: int
    truncated: int
    discarded: int
    failed: int
    not_run: int
    orphaned: int = 0
    total_tokens: int = 0
    tool_calls: int = 0
    reasons: dict[str, int] = Field(default_factory=dict)
    """Prompts by reason, for those that did not complete."""
    failures: Annotated[list[FailureNote], Field(max_length=5)] = Field(default_factory=list)
    reward: RewardFigures | None = None
    """None: no prompt has a reward."""
    damaged: dict[str, int] = Field(default_factory=dict)
    """Lines that were rows and are none any more, by batch file, as the merge found them."""


class SandboxSignal(BaseModel):
    """What the operator saw happen to one sandbox container."""

    model_config = ConfigDict(frozen=True)

    reason: Reason
    message: Annotated[str, Field(max_length=400)] = ""
    hopeless: bool = False
    """It will never call: not even in the runner's image can its container be made."""


class Culprit(BaseModel):
    """A sandbox for which the kubelet ended earlier pods of its batch."""

    model_config = ConfigDict(frozen=True)

    attempts: Annotated[int, Field(ge=1)]
    """How many."""
    reason: Reason
    message: Annotated[str, Field(max_length=400)] = ""


class Signals(BaseModel):
    """The content of the signals annotation."""

    model_config = ConfigDict(frozen=True)

    sandboxes: dict[int, SandboxSignal] = Field(default_factory=dict)
    """By sandbox index: ImageUnavailable with the registry's words, OOMKilled with the limit, ..."""
    culprits: dict[int, Culprit] = Field(default_factory=dict)
    """By sandbox index: who took earlier attempts of this batch down."""
    last_loss: Annotated[str, Field(max_length=400)] = ""
    """Why the attempt before this one, or this pod's earlier runner, was lost; empty: not known."""
    stop: bool = False
    """Start no further prompt; finish what is going on, then exit with work left."""
