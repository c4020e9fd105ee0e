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

    # That of Enum is a Python function, and 100,000 rows are sorted by their outcome in several places.
    __hash__ = str.__hash__


DONE_OUTCOMES = frozenset({Outcome.COMPLETED, Outcome.TRUNCATED, Outcome.DISCARDED})
"""Outcomes that resume does not run again."""


class Reason(StrEnum):
    """Why a prompt did not complete. Empty in rows that did."""

    # truncated
    MAX_TURNS = "MaxTurns"
    """No answer after `agent.maxTurns` model calls, or the row's `maxTurns`."""
    TOKEN_LIMIT = "TokenLimit"  # noqa: S105
    """`agent.maxTotalTokens` are used."""
    TIME_LIMIT = "TimeLimit"
    """`agent.timeoutSeconds` are over, or the row's `timeoutSeconds`."""
    # discarded
    NO_REASONING = "NoReasoning"
    """No assistant turn has reasoning, and `filters.requireReasoning` is on."""
    UNKNOWN_TOOLS = "UnknownTools"
    """It calls a tool that does not exist, and `filters.unknownTools` is `Drop`."""
    # failed: the model's side
    RATE_LIMITED = "RateLimited"
    """The server's rate limit, after all retries."""
    PROVIDER_ERROR = "ProviderError"
    """The server failed, after all retries."""
    INVALID_REQUEST = "InvalidRequest"
    """The server refuses the request."""
    INVALID_CREDENTIALS = "InvalidCredentials"
    """The server refuses the API key. Ends the run, not the prompt."""
    MODEL_NOT_FOUND = "ModelNotFound"
    """The server does not know the model. Ends the run, not the prompt."""
    CONTEXT_LENGTH_EXCEEDED = "ContextLengthExceeded"
    """The conversation is longer than the model takes."""
    CONTENT_FILTERED = "ContentFiltered"
    """A content filter ended the reply."""
    EMPTY_REPLY = "EmptyReply"
    """Three replies in a row with neither text nor calls."""
    TRUNCATED_REPLY = "TruncatedReply"
    """The reply ended at its limit of tokens (`model.maxTokens`) without calls."""
    INVALID_TOOL_CALLS = "InvalidToolCalls"
    """Three turns in a row whose every call was invalid."""
    UNPARSED_TOOL_CALL = "UnparsedToolCall"
    """Three replies in a row with a call as text, which the server's parser missed."""
    TIMEOUT = "Timeout"
    """The server did not answer in time, after all retries."""
    # failed: the sandbox's side
    IMAGE_UNAVAILABLE = "ImageUnavailable"
    """The prompt's image cannot be pulled, or cannot run here."""
    CREATE_CONTAINER_ERROR = "CreateContainerError"
    """The prompt's container cannot be made or started; the message has the kubelet's words."""
    OOM_KILLED = "OOMKilled"
    """The kernel killed the sandbox for memory; the message has the limit. A killed command alone fails no prompt."""
    DISK_FULL = "DiskFull"
    """The sandbox outgrew `sandbox.resources.limits.ephemeral-storage`, and its pod was evicted for it twice."""
    EVICTED = "Evicted"
    """The node ran short and twice evicted the pod in which this sandbox used the most; the message says of what."""
    SANDBOX_LOST = "SandboxLost"
    """The sandbox died while it was used; the message says how its container ended, where that is known."""
    SANDBOX_UNAVAILABLE = "SandboxUnavailable"
    """The sandbox never came up."""
    MCP_SERVER_UNAVAILABLE = "McpServerUnavailable"
    """An MCP server of `tools.mcpServers` gave no session in three tries; the message has name and cause."""
    SETUP_FAILED = "SetupFailed"
    """The row's `files` could not be put into its sandbox, or its `setup` failed; the agent never began."""
    VERIFIER_FAILED = "VerifierFailed"
    """The row's `verify` gave no verdict: it could not run, or wrote no number. Never counted as a reward of 0."""
    IDENTITY_TOKEN_PRESENT = "IdentityTokenPresent"  # noqa: S105
    """The sandbox saw a cloud identity that no sandbox may have, and did not serve."""
    LOST_ATTEMPTS = "LostAttempts"
    """It was started three times, and each time its pod was lost; the message says why, where that is known."""
    INTERNAL = "Internal"
    """A fault of batchrun."""
