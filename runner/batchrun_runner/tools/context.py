"""What a tool call works with and what it gives back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from batchrun_runner.browser.client import BrowserConnection
from batchrun_runner.records import Usage
from batchrun_runner.sandbox.errors import SandboxError
from batchrun_runner.sandbox.interface import Sandbox
from batchrun_runner.tools.services import NO_SERVICES, ToolServices


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """Bounds of single calls. Seconds are wall time; bytes are those of UTF-8."""

    command_seconds: int = 180
    """A command's timeout where the model names none."""
    max_command_seconds: int = 600
    output_bytes: int = 50_000
    """Kept of a command's output, head and tail together."""
    read_bytes: int = 60_000
    """Shown of a file in one call."""
    line_bytes: int = 2_000
    """Shown of one line."""
    search_seconds: float = 20.0


class ToolErrorKind(StrEnum):
    """Why a call failed, beside the kinds of the sandbox (`ErrorKind`)."""

    UNKNOWN_TOOL = "unknown_tool"
    INVALID_ARGUMENTS = "invalid_arguments"
    TIMEOUT = "timeout"
    NO_MATCH = "no_match"
    AMBIGUOUS_MATCH = "ambiguous_match"
    BINARY_FILE = "binary_file"
    ADDRESS_REFUSED = "address_refused"
    UNREACHABLE = "unreachable"
    HTTP_STATUS = "http_status"
    UNSUPPORTED_CONTENT = "unsupported_content"
    TOO_LARGE = "too_large"
    PROVIDER_ERROR = "provider_error"
    NO_PAGE = "no_page"
    BROWSER_LOST = "browser_lost"
    INTERNAL = "internal"


class ToolFailure(Exception):
    """The call failed and the model is told so."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message

    @classmethod
    def of(cls, error: SandboxError) -> "ToolFailure":
        """What the sandbox refused."""
        return cls(error.kind, error.message)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """`content` is JSON text for the model. `failed` calls carry an `error` that is not null, and their kind."""

    content: str
    failed: bool = False
    error_kind: str | None = None


@dataclass(slots=True)
class ToolContext:
    """One prompt's state between calls."""

    sandbox: Sandbox
    cwd: str
    """Where the next command runs; a `cd` in the terminal moves it."""
    tools: tuple[str, ...]
    """Names that were offered to the model."""
    limits: ToolLimits = field(default_factory=ToolLimits)
    env: Mapping[str, str] = field(default_factory=dict)
    """The row's own variables, for every command."""
    services: ToolServices = NO_SERVICES
    """What the tools outside of the sandbox work with."""
    read_up_to: dict[str, int] = field(default_factory=dict)
    """Bytes of each background process's output that the model has seen."""
    start_cwd: str = ""
    key: str = ""
    """The prompt's (docs/decisions/0004)."""
    usage: Usage = field(default_factory=Usage)
    """Of the models that this prompt's tools asked."""
    browser: BrowserConnection | None = None
    """This prompt's, where the run has one; nothing is opened before it is used."""

    def __post_init__(self) -> None:
        self.start_cwd = self.start_cwd or self.cwd

    def take_usage(self) -> Usage:
        """What was used since the last time."""
        usage, self.usage = self.usage, Usage()
        return usage


def result(fields: Mapping[str, Any], *, failed: bool = False, error_kind: str | None = None) -> ToolResult:
    """A result from its fields; those that are None are left out, but for `error` and `exit_code`."""
    kept = {name: value for name, value in fields.items() if value is not None or name in {"error", "exit_code"}}
    return ToolResult(json.dumps(kept, ensure_ascii=False, allow_nan=False), failed, error_kind)


def omitted_end(whole: str, kept: str) -> str | None:
    """What the model is told of a text that was cut; None: nothing is missing."""
    bytes_left_out = len(whole.encode()) - len(kept.encode())
    return f"{bytes_left_out} bytes at the end were left out" if bytes_left_out else None


def failure(kind: str, message: str) -> ToolResult:
    """A result that is nothing but an error."""
    return result({"error": message}, failed=True, error_kind=kind)
