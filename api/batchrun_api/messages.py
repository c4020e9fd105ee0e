"""Termination messages and signals: the small words between pods and operator. Hints; the ledger is the truth.

A pod's containers share about 12 kB for their messages, cut silently: with 100 sandboxes 120 bytes each. So a message
of a batch pod's container stays below 100 bytes.
"""

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from batchrun_api.outcomes import Outcome, Reason

SANDBOX_MESSAGE_LIMIT_BYTES = 100


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
    """What the runner of a batch leaves behind: how many prompts ended how."""

    completed: Annotated[int, Field(ge=0, alias="c")] = 0
    truncated: Annotated[int, Field(ge=0, alias="t")] = 0
    discarded: Annotated[int, Field(ge=0, alias="d")] = 0
    failed: Annotated[int, Field(ge=0, alias="f")] = 0
    left: Annotated[int, Field(ge=0, alias="l")] = 0
    reason: Annotated[str, Field(max_length=40, alias="r")] = ""
    """Why it stopped, where it did not end by itself; one of `conditions.Reason`."""

    model_config = ConfigDict(populate_by_name=True)

    def encode(self) -> str:
        """Compact JSON below 100 bytes."""
        return json.dumps(self.model_dump(by_alias=True, exclude_defaults=True), separators=(",", ":"))


class StepMessage(_Message):
    """What a plan or merge pod leaves behind; it has the pod's whole 4 kB."""

    reason: str = ""
    """Empty when all is well, else one of `conditions.Reason`."""
    message: str = ""
    """For people: what is wrong, where, and the fix."""
    result: dict[str, Any] = Field(default_factory=dict)
    """merge: `MergeResult` as JSON. plan: nothing, its document is on the log."""

    def encode(self, limit_bytes: int = 4000) -> str:
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
    id: Annotated[str, Field(max_length=200)] = ""
    reason: str
    message: Annotated[str, Field(max_length=400)] = ""


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
    damaged: dict[str, int] = Field(default_factory=dict)
    """Lines that were rows and are none any more, by batch file, as the merge found them."""


class SandboxSignal(BaseModel):
    """What the operator saw happen to one sandbox container."""

    model_config = ConfigDict(frozen=True)

    reason: Reason
    message: Annotated[str, Field(max_length=400)] = ""


class Signals(BaseModel):
    """The content of the signals annotation."""

    model_config = ConfigDict(frozen=True)

    sandboxes: dict[int, SandboxSignal] = Field(default_factory=dict)
    """By sandbox index: ImageUnavailable with the registry's words, SandboxLost with its cause."""
    stop: bool = False
    """Start no further prompt; finish what is going on, then exit with work left."""
