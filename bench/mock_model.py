"""A scripted model for agents that are not ours: takes the shell tool that is offered, so many turns, then ends.

    python -m bench.mock_model --delay-ms 100 --tool-turns 2

Prints its base URL once it listens. A conversation's turn is the number of replies it holds already; the end has the
form that the agent waits for: a call of its `submit` tool, its magic command, or plain text.

    POST /v1/chat/completions   streamed if asked for
    GET  /v1/models             the one model, `mock-model`
    GET  /stats                 {"completions"}
"""

import argparse
import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from batchrun_runner.demo_model.http import Connection, Request, Response

MODEL = "mock-model"
_SHELL_TOOLS = ("terminal", "bash")
_END_TOOL = "submit"
_MAGIC_END = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""mini-swe-agent has no tool for the end: it looks for this first line of a command's output."""
_COMMAND = "echo hello"
_REASONING = "The shell is to print a line: run echo, then look at what it printed."

_Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Reply:
    content: str
    call: tuple[str, str] | None = None
    """Name of a tool, and its arguments as JSON."""

    @property
    def finish_reason(self) -> str:
        return "tool_calls" if self.call else "stop"


class MockModel:
    """Answers requests; `delay_ms` before each completion, `tool_turns` calls of the shell before the end."""

    def __init__(self, *, delay_ms: int, tool_turns: int) -> None:
        self._delay_seconds = delay_ms / 1000
        self._tool_turns = tool_turns
        self._completions = 0

    def handle(self, request: Request) -> Response:
        """The response to one request."""
        path = request.path
        if request.method == "POST" and path.endswith("/chat/completions"):
            self._completions += 1
            return self._complete(orjson.loads(request.body))
        if path.endswith("/models"):
            model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "mock", "context_length": 131_072}
            return Response(200, orjson.dumps({"object": "list", "data": [model]}))
        if path == "/stats":
            return Response(200, orjson.dumps({"completions": self._completions}))
        return refuse(404, "not found")

    def _complete(self, request: _Json) -> Response:
        reply = _next_reply(request, self._tool_turns)
        fields = {"id": f"chatcmpl-{self._completions}", "created": 0, "model": MODEL}
        if request.get("stream"):
            body = b"".join(_events(fields, self._message(reply), reply.finish_reason))
            return Response(200, body, delay_seconds=self._delay_seconds, content_type="text/event-stream")
        choice = {"index": 0, "message": self._message(reply), "finish_reason": reply.finish_reason}
        body = orjson.dumps({**fields, "object": "chat.completion", "choices": [choice], "usage": _USAGE})
        return Response(200, body, delay_seconds=self._delay_seconds)

    def _message(self, reply: _Reply) -> _Json:
        message: _Json = {"role": "assistant", "content": reply.content, "reasoning_content": _REASONING}
        if reply.call:
            function = {"name": reply.call[0], "arguments": reply.call[1]}
            message["tool_calls"] = [{"id": f"call_{self._completions}", "type": "function", "function": function}]
        return message


_USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


def refuse(status: int, message: str) -> Response:
    """An error as the API words it."""
    return Response(status, orjson.dumps({"error": {"message": message, "type": "invalid_request_error"}}))


def _next_reply(request: _Json, tool_turns: int) -> _Reply:
    messages: Sequence[_Json] = request["messages"]
    tools = {tool["function"]["name"]: tool["function"] for tool in request.get("tools") or ()}
    shell = next((tools[name] for name in _SHELL_TOOLS if name in tools), None)
    is_last = sum(message["role"] == "assistant" for message in messages) >= tool_turns
    if shell and not is_last:
        return _Reply("I will run the command now.", _call(shell, _COMMAND))
    if shell and any(_MAGIC_END in str(message["content"]) for message in messages[:2]):
        return _Reply("Done, submitting.", _call(shell, f"echo {_MAGIC_END}"))
    if _END_TOOL in tools:
        return _Reply("Submitting.", _call(tools[_END_TOOL], "hello"))
    return _Reply("Done. The terminal printed hello.")


def _call(tool: Mapping[str, Any], value: str) -> tuple[str, str]:
    """A call that gives the tool's first parameter, which is the command or the answer."""
    parameters: _Json = tool["parameters"]["properties"]
    name = "command" if "command" in parameters else next(iter(parameters))
    return str(tool["name"]), orjson.dumps({name: value}).decode()


def _events(fields: _Json, message: _Json, finish_reason: str) -> Iterator[bytes]:
    calls = [{"index": index, **call} for index, call in enumerate(message.get("tool_calls", ()))]
    first = {**message, "tool_calls": calls} if calls else message
    for delta, reason in ((first, None), ({}, finish_reason)):
        choices = [{"index": 0, "delta": delta, "finish_reason": reason}]
        yield _event({**fields, "object": "chat.completion.chunk", "choices": choices})
    yield _event({**fields, "object": "chat.completion.chunk", "choices": [], "usage": _USAGE})
    yield b"data: [DONE]\n\n"


def _event(value: _Json) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"


async def _serve(model: MockModel) -> None:
    connections: set[Connection] = set()
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(model.handle, refuse, connections), "127.0.0.1", 0, backlog=2048
    )
    sys.stdout.write(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--delay-ms", type=int, default=0)
    parser.add_argument("--tool-turns", type=int, default=2)
    arguments = parser.parse_args()
    with asyncio.Runner() as runner:
        runner.run(_serve(MockModel(delay_ms=arguments.delay_ms, tool_turns=arguments.tool_turns)))
