"""How a prompt can end, and why: the closed sets that rows, ledgers, status and metrics share."""

from enum import StrEnum


class Outcome(StrEnum):
    """The end of one prompt. Only FAILED and INTERRUPTED run again on resume."""

    COMPLETED = "completed"
    """The model gave its final answer."""
    TRUNCATED = "truncated"
    """A limit ended it; the row is kept."""
    DISCARDED = "discarded"
    """A filter dropped it; the row lies in discarded.jsonl."""
    FAILED = "failed"
    """It could not be worked on; `reason` says why."""
    INTERRUPTED = "interrupted"
    """The run was stopped in the middle; nothing is stored."""


DONE_OUTCOMES = frozenset({Outcome.COMPLETED, Outcome.TRUNCATED, Outcome.DISCARDED})
"""Outcomes that resume does not run again."""


class Reason(StrEnum):
    """Why a prompt did not complete. Empty in rows that did."""

    # truncated
    MAX_TURNS = "MaxTurns"
    TOKEN_LIMIT = "TokenLimit"  # noqa: S105
    TIME_LIMIT = "TimeLimit"
    # discarded
    NO_REASONING = "NoReasoning"
    UNKNOWN_TOOLS = "UnknownTools"
    # failed: the model's side
    RATE_LIMITED = "RateLimited"
    PROVIDER_ERROR = "ProviderError"
    INVALID_REQUEST = "InvalidRequest"
    INVALID_CREDENTIALS = "InvalidCredentials"
    MODEL_NOT_FOUND = "ModelNotFound"
    CONTEXT_LENGTH_EXCEEDED = "ContextLengthExceeded"
    CONTENT_FILTERED = "ContentFiltered"
    EMPTY_REPLY = "EmptyReply"
    TRUNCATED_REPLY = "TruncatedReply"
    INVALID_TOOL_CALLS = "InvalidToolCalls"
    UNPARSED_TOOL_CALL = "UnparsedToolCall"
    TIMEOUT = "Timeout"
    # failed: the sandbox's side
    IMAGE_UNAVAILABLE = "ImageUnavailable"
    SANDBOX_LOST = "SandboxLost"
    SANDBOX_UNAVAILABLE = "SandboxUnavailable"
    IDENTITY_TOKEN_PRESENT = "IdentityTokenPresent"  # noqa: S105
    LOST_ATTEMPTS = "LostAttempts"
    INTERNAL = "Internal"
