"""What can go wrong with a sandbox, by fate.

SandboxFault
|-- SandboxError        one operation failed, the sandbox goes on: tell the model
|-- SandboxUnavailable  the sandbox never served: its prompt fails with `reason`
|-- SetupFailed         a row's own files or setup failed: its prompt fails before the agent begins
|-- SandboxLost         the sandbox is gone for good: its prompt ends, nothing is repeated
`-- HelperMissing       no sandboxd on this machine and no way to build it: nothing can run
"""

from enum import StrEnum

from batchrun_api.outcomes import Reason


class ErrorKind(StrEnum):
    """Why an operation failed; the closed set of docs/protocol.md."""

    NOT_FOUND = "not_found"
    IS_DIRECTORY = "is_directory"
    NOT_A_DIRECTORY = "not_a_directory"
    NOT_A_FILE = "not_a_file"
    PERMISSION_DENIED = "permission_denied"
    TOO_LARGE = "too_large"
    INVALID_ARGUMENT = "invalid_argument"
    NO_SHELL = "no_shell"
    LIMIT = "limit"
    DISK_FULL = "disk_full"
    REFUSED = "refused"
    UNKNOWN_OPERATION = "unknown_operation"
    IO = "io"
    INTERNAL = "internal"


class LostCause(StrEnum):
    """How the runner learned that a sandbox is gone."""

    CONNECTION_CLOSED = "connection_closed"
    PROTOCOL_BROKEN = "protocol_broken"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    ENDED = "ended"


class SandboxFault(Exception):
    """Root of this package's errors."""


class SandboxError(SandboxFault):
    """One operation failed; the sandbox still serves."""

    def __init__(self, kind: ErrorKind, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message


class SandboxUnavailable(SandboxFault):
    """The sandbox of one prompt never came to serve. `reason` goes into the row, `detail` is for people."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class SetupFailed(SandboxFault):
    """What a row brings along could not be put in place, or its setup failed; `detail` is for people."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class SandboxLost(SandboxFault):
    """The connection to a sandbox is over; what ran in it is not repeated."""

    def __init__(self, cause: LostCause, detail: str = "") -> None:
        super().__init__(f"{cause}: {detail}" if detail else str(cause))
        self.cause = cause
        self.detail = detail


class HelperMissing(SandboxFault):
    """There is no sandboxd binary; the message says how to get one."""
