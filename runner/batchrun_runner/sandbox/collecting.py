"""Bringing results out of a sandbox when its agent has ended: bounded, and whatever stays behind is listed.

Links are not followed and special files not opened. Everything is read by the helper within the sandbox.
"""

import hashlib
import posixpath
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from batchrun_runner.records import Artifact, Artifacts, Collect, LeftOut
from batchrun_runner.sandbox.backend import SandboxLease
from batchrun_runner.sandbox.errors import ErrorKind, SandboxError, SandboxLost
from batchrun_runner.sandbox.fresh import fresh_file
from batchrun_runner.sandbox.preparing import end_of_output, how_it_ended

TOTAL_LIMIT_BYTES = 16 * 1024 * 1024
"""Of all files and the command's output of one prompt."""
FILES_LIMIT = 200
NAMES_LIMIT = 2000
"""Names in folders that are looked at."""
LEFT_OUT_LIMIT = 50
"""How many of those that were left out are listed; of the others there is the number."""
COLLECTED = "BATCHRUN_COLLECTED"
"""Variable that names the file of the command's output."""
OUTPUT = "(output of collect.command)"
"""Stands for the output in the list of what was left out."""
_REPLACED = "\N{REPLACEMENT CHARACTER}"
"""Stands in names for bytes that are no UTF-8."""
_PIECE_BYTES = 8 * 1024 * 1024
_COMMAND_OUTPUT_BYTES = 4096
_LISTING_LIMIT = 10_000


class Keeper(Protocol):
    """Takes what is brought out."""

    async def keep(self, path: str, data: bytes) -> str:
        """Store a file. Returns why it cannot be stored; empty: it is."""

    async def keep_output(self, data: bytes) -> None:
        """Store the command's output."""


async def collect(
    lease: SandboxLease, wanted: Collect, env: Mapping[str, str], command_seconds: int, keeper: Keeper
) -> Artifacts:
    """End all processes, then bring out what the row asks for. Errors of the sandbox are part of the result.

    `env`: the row's own variables; `command_seconds`: the time limit of a command that names none.
    """
    collector = _Collector(lease, keeper)
    try:
        await lease.sandbox.kill_all()
        with suppress(SandboxError):
            await lease.sandbox.make_directory(lease.cwd, cwd="/")  # the agent may have removed it
        if wanted.command:
            await collector.run(wanted, env, wanted.timeout_seconds or command_seconds)
        for path in wanted.paths:
            await collector.take(path)
    except SandboxError as error:
        collector.leave("", f"its processes could not be ended: {error.message}")
    except SandboxLost as error:
        collector.leave("", f"the sandbox was lost: {error}")
    return collector.result()


class _TooLarge(Exception):
    """A file does not fit into what is left."""


@dataclass(slots=True)
class _Collector:
    lease: SandboxLease
    keeper: Keeper
    files: dict[str, Artifact] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    more_left_out: int = 0
    has_output: bool = False
    left_bytes: int = TOTAL_LIMIT_BYTES
    left_names: int = NAMES_LIMIT

    def result(self) -> Artifacts:
        return Artifacts(
            files=tuple(self.files.values()),
            has_output=self.has_output,
            left_out=tuple(self.left_out),
            more_left_out=self.more_left_out,
        )

    def leave(self, path: str, why: str) -> None:
        if len(self.left_out) < LEFT_OUT_LIMIT:
            self.left_out.append(LeftOut(path, why))
        else:
            self.more_left_out += 1

    async def run(self, wanted: Collect, env: Mapping[str, str], seconds: int) -> None:
        """The command, its standard output in a file: the helper's own capture is bounded and made UTF-8."""
        try:
            file = await fresh_file(self.lease, "out")
            done = await self.lease.sandbox.exec(
                f'exec >"${COLLECTED}"\n{wanted.command}',
                cwd=self.lease.cwd,
                timeout_seconds=seconds,
                limit_bytes=_COMMAND_OUTPUT_BYTES,
                env={**env, COLLECTED: file},
            )
        except SandboxError as error:
            self.leave(OUTPUT, f"the command could not be run: {error.message}")
            return
        try:
            data = await self._read(file)
        except (SandboxError, _TooLarge) as error:
            self.leave(OUTPUT, str(error))
        else:
            await self.keeper.keep_output(data)
            self.has_output = True
        if done.timed_out or done.exit_code != 0:
            end = end_of_output(done)
            said = f"; it said: {end}" if end else ""
            kept = ", what it had written is kept" if self.has_output else ""
            self.leave(OUTPUT, f"the command {how_it_ended(done, seconds)}{kept}{said}")

    async def take(self, path: str) -> None:
        """A path that the row names."""
        try:
            await self._take(path, *await self._kind_and_size(path))
        except SandboxError as error:
            self.leave(path, error.message)

    async def _take(self, path: str, kind: str, size_bytes: int) -> None:
        if _REPLACED in path:
            self.leave(path, "its name is no UTF-8 text")
        elif kind == "file":
            await self._file(path, size_bytes)
        elif kind == "directory":
            await self._folder(path)
        elif kind == "":
            self.leave(path, "there is no such file or folder")
        elif kind == "symlink":
            self.leave(path, "it is a link, and links are not followed")
        else:
            self.leave(path, f"it is a {kind}, which is not read")

    async def _kind_and_size(self, path: str) -> tuple[str, int]:
        """As the folder above lists it, so a link is seen as one; an empty kind where there is nothing."""
        if path in {".", "/"}:
            return "directory", 0
        folder, name = posixpath.split(path)
        try:
            listed = await self.lease.sandbox.list_directory(folder or ".", cwd=self.lease.cwd, limit=_LISTING_LIMIT)
            found = next((entry for entry in listed.entries if entry.name == name), None)
            if found is not None or not listed.truncated:
                return (found.kind, found.size_bytes) if found else ("", 0)
            status = await self.lease.sandbox.stat(path, cwd=self.lease.cwd)
        except SandboxError as error:
            if error.kind in {ErrorKind.NOT_FOUND, ErrorKind.NOT_A_DIRECTORY}:
                return "", 0
            raise
        return status.kind, status.size_bytes

    async def _folder(self, top: str) -> None:
        waiting = [top]
        while waiting:
            folder = waiting.pop()
            if self.left_names <= 0:
                self.leave(folder, f"{NAMES_LIMIT:,} names were looked at before it")
                continue
            try:
                listed = await self.lease.sandbox.list_directory(folder, cwd=self.lease.cwd, limit=self.left_names)
            except SandboxError as error:
                self.leave(folder, error.message)
                continue
            self.left_names -= len(listed.entries)
            if listed.truncated:
                self.leave(folder, f"not all of it: at most {NAMES_LIMIT:,} names are looked at")
            for entry in listed.entries:
                path = entry.name if folder == "." else posixpath.join(folder, entry.name)
                if entry.kind == "directory":
                    waiting.append(path)
                else:
                    await self._take(path, entry.kind, entry.size_bytes)

    async def _file(self, path: str, size_bytes: int) -> None:
        if path in self.files:
            return
        if len(self.files) == FILES_LIMIT:
            self.leave(path, f"there are more than {FILES_LIMIT} files")
            return
        try:
            data = await self._read(path, size_bytes)
            mode = (await self.lease.sandbox.stat(path, cwd=self.lease.cwd)).mode
        except SandboxError as error:
            self.leave(path, error.message)
            return
        except _TooLarge as error:
            self.leave(path, str(error))
            return
        why = await self.keeper.keep(path, data)
        if why:
            self.leave(path, why)
            return
        self.files[path] = Artifact(path, len(data), mode, hashlib.sha256(data).hexdigest())
        self.left_bytes -= len(data)

    async def _read(self, path: str, size_bytes: int = 0) -> bytes:
        """All of a file. Raises _TooLarge, as soon as it is known, and SandboxError."""
        data = bytearray()
        while True:
            if max(size_bytes, len(data)) > self.left_bytes:
                raise _TooLarge(
                    f"it has {max(size_bytes, len(data)):,} bytes or more; {self.left_bytes:,} were left of "
                    f"{TOTAL_LIMIT_BYTES:,} for a prompt"
                )
            piece = await self.lease.sandbox.read_bytes(
                path, cwd=self.lease.cwd, offset_bytes=len(data), limit_bytes=_PIECE_BYTES
            )
            data += piece.data
            if piece.eof and len(data) <= self.left_bytes:
                return bytes(data)
            size_bytes = max(size_bytes, piece.size_bytes)
