"""What sandboxd says, as values. Fields and units are those of docs/protocol.md; unknown fields are ignored."""

import base64
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


Base64Bytes = Annotated[bytes, BeforeValidator(base64.b64decode)]


class Hello(_Message):
    """The first frame: what kind of place the sandbox is. `shell` is empty where the image has none."""

    protocol: int
    boot_id: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    pid1: bool
    cwd: str
    uid: int
    gid: int
    user: str
    home: str
    shell: str
    runner_image: bool
    refused: str
    identity_tokens: tuple[str, ...] = ()
    memory_limit_bytes: int = 0
    """Of the container; 0: none, or not known."""


class Output(_Message):
    """A bounded stream: all of it in `head` when nothing was omitted, else its beginning and its end."""

    head: str
    tail: str
    omitted_bytes: int

    @property
    def joined(self) -> str:
        """The kept text, with a mark where something is missing."""
        if not self.omitted_bytes:
            return self.head + self.tail
        return f"{self.head}\n[... {self.omitted_bytes} bytes omitted ...]\n{self.tail}"


class ExecResult(_Message):
    """How a command ended. `exit_code` is 128 + n where signal n ended the shell, whose name is in `signal`."""

    exit_code: int
    signal: str
    timed_out: bool
    output: Output
    cwd: str
    """Where the shell stood at its end; `cwd_exists` is false when that folder is gone."""
    cwd_exists: bool
    duration_ms: int
    oom_kills: int
    """Processes of the sandbox that the kernel killed for memory while the command ran."""
    process_limit_kills: int
    leftover_processes: int


class Started(_Message):
    """A background process: its name for later calls, and its number in the sandbox."""

    process_id: str
    pid: int


class ProcessStatus(_Message):
    """One background process. `exit_code` and `signal` mean nothing while it runs."""

    process_id: str
    pid: int
    command: str
    running: bool
    exit_code: int
    signal: str
    duration_ms: int


class PollResult(ProcessStatus):
    """State and new output of a background process; `next_byte` is where the following poll begins."""

    output: Output
    next_byte: int


class CutLine(_Message):
    """The line at `index` of `FileLines.lines` lacks its last `omitted_bytes`."""

    index: int
    omitted_bytes: int


class FileLines(_Message):
    """Lines without their ends. `total_lines` is -1 when the file was too large to count them."""

    path: str
    lines: tuple[str, ...]
    cut: tuple[CutLine, ...]
    eof: bool
    total_lines: int
    size_bytes: int
    binary: bool


class FileBytes(_Message):
    """A piece of a file; `eof` says that nothing follows it."""

    path: str
    data: Base64Bytes
    size_bytes: int
    eof: bool


class Written(_Message):
    """A file that was written as a whole."""

    path: str
    written_bytes: int
    created: bool


class FileStat(_Message):
    """What a path leads to. `kind`: file, directory, fifo, socket or device; `mode` holds permission bits."""

    path: str
    kind: str
    size_bytes: int
    mode: int
    modified_ms: int


class DirectoryEntry(_Message):
    """One name in a folder; a link is not followed (`kind` symlink)."""

    name: str
    kind: str
    size_bytes: int


class Directory(_Message):
    """A folder's entries in the order of their names; `truncated` says that there are more."""

    path: str
    entries: tuple[DirectoryEntry, ...]
    truncated: bool


class Match(_Message):
    """One search result. `line` counts from 1; `line`, `text` and `count` are 0 or empty where the mode has none."""

    path: str
    line: int
    text: str
    count: int


class SearchResult(_Message):
    """Matches in the order of paths. `truncated`: empty, limit, time, bytes or folder_too_large."""

    matches: tuple[Match, ...]
    truncated: str
    skipped_files: int
