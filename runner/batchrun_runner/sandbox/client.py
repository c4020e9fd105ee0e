"""`SandboxConnection`: the Sandbox behind one accepted unix socket."""

import asyncio
import base64
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ValidationError

from batchrun_api.outcomes import Outcome, Reason
from batchrun_api.spec.sandbox import CommandNetwork
from batchrun_runner.sandbox.errors import ErrorKind, LostCause, SandboxError, SandboxLost
from batchrun_runner.sandbox.interface import SearchQuery
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
from batchrun_runner.sandbox.protocol import FrameError, FrameTooLarge, encode_frame, read_frame

MARGIN_SECONDS = 15.0
"""How much longer than sandboxd's own limits the runner waits before it gives a sandbox up."""
FILE_SECONDS = 120.0
"""Longest file operation: a file system that hangs must not hold a prompt for ever."""
KILL_ALL_SECONDS = 30.0
"""Longest time in which sandboxd ends all processes."""

_Result = TypeVar("_Result", bound=BaseModel)


class _Processes(BaseModel):
    processes: tuple[ProcessStatus, ...]


class _InputTaken(BaseModel):
    written_bytes: int


class _Nothing(BaseModel):
    pass


class SandboxConnection:
    """Requests over one connection, concurrent and in any order of answers. Made by SandboxListener."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        hello: Hello,
        *,
        margin_seconds: float = MARGIN_SECONDS,
    ) -> None:
        self.hello = hello
        self._reader = reader
        self._writer = writer
        self._margin_seconds = margin_seconds
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._last_id = 0
        self._lost: SandboxLost | None = None
        self._receiver = asyncio.create_task(self._receive())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def exec(
        self,
        command: str,
        *,
        cwd: str,
        timeout_seconds: float,
        limit_bytes: int,
        env: Mapping[str, str] | None = None,
    ) -> ExecResult:
        args = {
            "command": command,
            "cwd": cwd,
            "env": dict(env or {}),
            "timeout_ms": int(timeout_seconds * 1000),
            "limit_bytes": limit_bytes,
        }
        return await self._call("exec", args, ExecResult, timeout_seconds)

    async def start(self, command: str, *, cwd: str, env: Mapping[str, str] | None = None) -> Started:
        return await self._call("start", {"command": command, "cwd": cwd, "env": dict(env or {})}, Started)

    async def poll(
        self, process_id: str, *, from_byte: int, limit_bytes: int, timeout_seconds: float = 0
    ) -> PollResult:
        args = {
            "process_id": process_id,
            "from_byte": from_byte,
            "limit_bytes": limit_bytes,
            "timeout_ms": int(timeout_seconds * 1000),
        }
        return await self._call("poll", args, PollResult, timeout_seconds)

    async def write_input(self, process_id: str, data: bytes, *, close: bool = False) -> int:
        args = {"process_id": process_id, "data": base64.b64encode(data).decode(), "close": close}
        return (await self._call("input", args, _InputTaken)).written_bytes

    async def kill(self, process_id: str) -> ProcessStatus:
        return await self._call("kill", {"process_id": process_id}, ProcessStatus)

    async def kill_all(self) -> None:
        await self._call("kill_all", {}, _Nothing, KILL_ALL_SECONDS)

    async def list_processes(self) -> tuple[ProcessStatus, ...]:
        return (await self._call("list", {}, _Processes)).processes

    async def read_lines(
        self, path: str, *, cwd: str, first_line: int, limit_lines: int, limit_bytes: int, max_line_bytes: int
    ) -> FileLines:
        args = {
            "path": path,
            "cwd": cwd,
            "first_line": first_line,
            "limit_lines": limit_lines,
            "limit_bytes": limit_bytes,
            "max_line_bytes": max_line_bytes,
        }
        return await self._call("read_lines", args, FileLines, FILE_SECONDS)

    async def read_bytes(self, path: str, *, cwd: str, offset_bytes: int, limit_bytes: int) -> FileBytes:
        args = {"path": path, "cwd": cwd, "offset_bytes": offset_bytes, "limit_bytes": limit_bytes}
        return await self._call("read_bytes", args, FileBytes, FILE_SECONDS)

    async def write_file(self, path: str, data: bytes, *, cwd: str, mode: int = 0) -> Written:
        args = {"path": path, "cwd": cwd, "data": base64.b64encode(data).decode(), "mode": mode}
        return await self._call("write", args, Written, FILE_SECONDS)

    async def stat(self, path: str, *, cwd: str) -> FileStat:
        return await self._call("stat", {"path": path, "cwd": cwd}, FileStat, FILE_SECONDS)

    async def make_directory(self, path: str, *, cwd: str) -> FileStat:
        return await self._call("mkdir", {"path": path, "cwd": cwd}, FileStat, FILE_SECONDS)

    async def list_directory(self, path: str, *, cwd: str, limit: int) -> Directory:
        return await self._call("list_dir", {"path": path, "cwd": cwd, "limit": limit}, Directory, FILE_SECONDS)

    async def search(self, query: SearchQuery, *, cwd: str) -> SearchResult:
        args = {
            "pattern": query.pattern,
            "path": query.path,
            "cwd": cwd,
            "target": query.target,
            "mode": query.mode,
            "file_glob": query.file_glob,
            "offset": query.offset,
            "limit": query.limit,
            "timeout_ms": int(query.timeout_seconds * 1000),
        }
        return await self._call("search", args, SearchResult, query.timeout_seconds)

    async def configure(self, *, max_processes: int, network: CommandNetwork = "Open") -> None:
        await self._call("configure", {"max_processes": max_processes, "network": network}, _Nothing)

    async def end(self, outcome: Outcome, reason: Reason | None = None) -> None:
        await self._call("end", {"outcome": outcome, "reason": reason or ""}, _Nothing)
        await self._give_up(SandboxLost(LostCause.ENDED, "the prompt is over"))

    @property
    def is_lost(self) -> bool:
        """True once the connection is over, whoever ended it."""
        return self._lost is not None

    async def wait_lost(self) -> None:
        """Return when the connection is over."""
        await asyncio.wait([self._receiver])

    async def close(self) -> None:
        """Drop the connection; a used sandbox takes that as its end."""
        await self._give_up(SandboxLost(LostCause.ENDED, "the runner closed the connection"))

    async def _call(self, op: str, args: dict[str, Any], result: type[_Result], timeout_seconds: float = 0) -> _Result:
        """One request, one answer. Too late is lost: the sandbox's state is unknown, and nothing is sent twice."""
        if self._lost is not None:
            raise SandboxLost(self._lost.cause, self._lost.detail)
        self._last_id += 1
        number = self._last_id
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        frame = _request_frame(number, op, args)
        self._waiting[number] = answer
        limit_seconds = timeout_seconds + self._margin_seconds
        try:
            async with asyncio.timeout(limit_seconds):
                self._writer.write(frame)
                await self._writer.drain()
                message = await answer
        except TimeoutError as error:
            lost = SandboxLost(LostCause.DEADLINE_EXCEEDED, f"no answer to {op} in {limit_seconds:g} s")
            await self._give_up(lost)
            raise lost from error
        except OSError as error:
            lost = SandboxLost(LostCause.CONNECTION_CLOSED, str(error))
            await self._give_up(lost)
            raise lost from error
        finally:
            self._waiting.pop(number, None)
        return await self._unpack(message, result)

    async def _unpack(self, message: dict[str, Any], result: type[_Result]) -> _Result:
        try:
            if (error := message.get("error")) is not None:
                raise SandboxError(ErrorKind(error["kind"]), str(error["message"]))
            return result.model_validate(message.get("result"))
        except (ValidationError, KeyError, TypeError, ValueError) as error:
            lost = SandboxLost(LostCause.PROTOCOL_BROKEN, f"an answer that is none: {error}")
            await self._give_up(lost)
            raise lost from error

    async def _receive(self) -> None:
        """Hand out answers until the connection ends. Answers that nobody waits for any more are dropped."""
        try:
            while True:
                message = await read_frame(self._reader)
                answer = self._waiting.get(message.get("id", 0))
                if answer is not None and not answer.done():
                    answer.set_result(message)
        except (EOFError, OSError):
            self._fail(SandboxLost(LostCause.CONNECTION_CLOSED, "the sandbox closed the connection"))
        except (FrameError, TypeError) as error:
            self._fail(SandboxLost(LostCause.PROTOCOL_BROKEN, str(error)))

    def _fail(self, lost: SandboxLost) -> None:
        """Remember the first reason and tell everybody who waits."""
        self._lost = self._lost or lost
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self._lost)
        self._writer.close()

    async def _give_up(self, lost: SandboxLost) -> None:
        self._fail(lost)
        self._receiver.cancel()
        with suppress(OSError):
            await self._writer.wait_closed()
        await asyncio.wait([self._receiver])


def _request_frame(number: int, op: str, args: dict[str, Any]) -> bytes:
    try:
        return encode_frame({"id": number, "op": op, "args": args})
    except FrameTooLarge as error:
        raise SandboxError(ErrorKind.TOO_LARGE, str(error)) from error
    except FrameError as error:
        raise SandboxError(ErrorKind.INVALID_ARGUMENT, str(error)) from error
