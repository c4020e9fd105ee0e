"""`Sandbox`: what tools may do in a prompt's container."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from batchrun_api.outcomes import Outcome, Reason
from batchrun_api.spec.sandbox import CommandNetwork
from batchrun_runner.sandbox.messages import (
    Directory,
    ExecResult,
    FileBytes,
    FileLines,
    FileStat,
    Hello,
    PollResult,
    ProcessStatus,
    SearchResult,
    Started,
    Written,
)

SearchTarget = Literal["content", "files"]
SearchMode = Literal["content", "files", "count"]


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """Look in `path` (a folder, or one file for content) for lines that match `pattern` in files whose names match
    `file_glob` (empty: all), or for names that match `pattern` as a glob. `mode` shapes content results: each line,
    each file once, or the count of each file. `offset` results are skipped, `limit` (at most 1000) returned."""

    pattern: str
    target: SearchTarget
    path: str = "."
    mode: SearchMode = "content"
    file_glob: str = ""
    offset: int = 0
    limit: int = 50
    timeout_seconds: float = 20.0


class Sandbox(Protocol):
    """One prompt's container. Every method raises SandboxError when the operation failed and SandboxLost when
    the sandbox is gone. Relative paths count from `cwd`; a leading `~` is the home folder."""

    @property
    def hello(self) -> Hello:
        """What the sandbox said of itself."""

    async def exec(
        self,
        command: str,
        *,
        cwd: str,
        timeout_seconds: float,
        limit_bytes: int,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        """Run a shell command; at the timeout everything that it started is killed. Never repeated."""

    async def start(self, command: str, *, cwd: str, env: Mapping[str, str] | None = None) -> Started:
        """Start a shell command in the background."""

    async def poll(
        self, process_id: str, *, from_byte: int, limit_bytes: int, timeout_seconds: float = 0
    ) -> PollResult:
        """State and output from a byte offset on; waits for the end for up to `timeout_seconds`."""

    async def write_input(self, process_id: str, data: bytes, *, close: bool = False) -> int:
        """Write to a process's standard input; returns the bytes that it took."""

    async def kill(self, process_id: str) -> ProcessStatus:
        """End a background process and all that it started."""

    async def kill_all(self) -> None:
        """End every process, also those of requests that are still under way; raises SandboxError where one stays."""

    async def list_processes(self) -> tuple[ProcessStatus, ...]:
        """All background processes, oldest first."""

    async def read_lines(
        self, path: str, *, cwd: str, first_line: int, limit_lines: int, limit_bytes: int, max_line_bytes: int
    ) -> FileLines:
        """Lines of a regular file from `first_line` (1 is the first) on."""

    async def read_bytes(self, path: str, *, cwd: str, offset_bytes: int, limit_bytes: int) -> FileBytes:
        """A piece of a regular file, 8 MiB at most."""

    async def write_file(self, path: str, data: bytes, *, cwd: str, mode: int = 0) -> Written:
        """Replace a file as a whole and make its folders; mode 0 keeps the old one."""

    async def stat(self, path: str, *, cwd: str) -> FileStat:
        """Describe what a path leads to."""

    async def make_directory(self, path: str, *, cwd: str) -> FileStat:
        """Make a folder and its parents; an existing one is fine."""

    async def list_directory(self, path: str, *, cwd: str, limit: int) -> Directory:
        """Names in a folder."""

    async def search(self, query: SearchQuery, *, cwd: str) -> SearchResult:
        """Lines that match an RE2 pattern, or names that match a glob."""

    async def configure(self, *, max_processes: int, network: CommandNetwork = "Open") -> None:
        """Set this sandbox's limits before the first command; 0 means no limit. Denied is never taken back."""

    async def end(self, outcome: Outcome, reason: Reason | None = None) -> None:
        """End all processes and the sandbox itself; its container exits 0."""
