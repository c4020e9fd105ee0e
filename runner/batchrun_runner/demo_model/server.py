"""Serving the demo model, in a process of its own or inside another one.

    POST /v1/chat/completions   the scripted replies
    GET  /v1/models             the one model, `demo/scripted`
    GET  /stats                 {"requests", "errors", "prompts", "by_prompt": {digest: requests}}
    POST /storm                 {"seconds", "retry_after"}: so long every request gets a 429; the hint may be null
    POST /reset                 counts from 0 again, attempts too

`requests` counts chat completion requests only.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import orjson

from batchrun_runner.demo_model import replies, streaming
from batchrun_runner.demo_model.http import Connection, Request, Response
from batchrun_runner.demo_model.script import Script, ScriptError, Turn, find_turns

LIMIT_PROMPTS = 10_000
"""How many prompts are counted one by one; requests of later ones are only in the total."""


class _Counts:
    def __init__(self) -> None:
        self.requests = 0
        self.errors = 0
        self.by_prompt: Counter[str] = Counter()
        self.attempts: Counter[str] = Counter()
        """Requests at each point of a scripted conversation that has attempts."""

    def add(self, prompt_digest: str) -> None:
        if prompt_digest in self.by_prompt or len(self.by_prompt) < LIMIT_PROMPTS:
            self.by_prompt[prompt_digest] += 1

    def as_json(self) -> bytes:
        return orjson.dumps(
            {
                "requests": self.requests,
                "errors": self.errors,
                "prompts": len(self.by_prompt),
                "by_prompt": self.by_prompt,
            }
        )


class DemoModel:
    """The demo model as an async context manager. `base_url` is known inside.

    `keep`: of how many of the last requests `bodies` and `headers` tell, oldest first. 0: of none.
    """

    def __init__(
        self,
        *,
        script: Script = (),
        host: str = "127.0.0.1",
        port: int = 0,
        delay_ms: int = 0,
        keep: int = 0,
    ) -> None:
        self._script = script
        self._host = host
        self._port = port
        self._delay_seconds = delay_ms / 1000
        self._counts = _Counts()
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._kept: deque[Request] = deque(maxlen=keep)
        self._storm_until = 0.0
        self._storm_headers: dict[str, str] = {}
        self.request_times: deque[float] = deque(maxlen=keep)
        """When the last requests came, on the monotonic clock."""

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self._respond, _error, self._connections), self._host, self._port, backlog=2048
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None  # noqa: S101 - entered before
        self._server.close()
        for connection in list(self._connections):
            connection.close()
        await self._server.wait_closed()

    @property
    def base_url(self) -> str:
        """What a client needs, such as `http://127.0.0.1:43210/v1`."""
        assert self._server is not None, "only inside `async with`"  # noqa: S101
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"

    @property
    def requests(self) -> int:
        """Chat completion requests since the start or the last reset."""
        return self._counts.requests

    @property
    def connections(self) -> int:
        """Client connections that are open now."""
        return len(self._connections)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        """The last request bodies as JSON, oldest first."""
        return [orjson.loads(request.body) for request in self._kept]

    @property
    def headers(self) -> list[dict[str, str]]:
        """The headers of the last requests, names in lower case, oldest first."""
        return [request.headers for request in self._kept]

    def play(self, script: Script) -> None:
        """Another script from now on."""
        self._script = script

    def storm(self, seconds: float, retry_after: float | None) -> None:
        """Answer 429 to everything for a while."""
        self._storm_until = time.monotonic() + seconds
        self._storm_headers = {} if retry_after is None else {"retry-after": str(retry_after)}

    async def forever(self) -> None:
        """Serve until cancelled."""
        assert self._server is not None, "only inside `async with`"  # noqa: S101
        await self._server.serve_forever()

    def _respond(self, request: Request) -> Response:
        match request.method, request.path.removeprefix("/v1"):
            case "POST", "/chat/completions":
                return self._complete(request)
            case "GET", "/models":
                return Response(200, _MODELS)
            case "GET", "/stats":
                return Response(200, self._counts.as_json())
            case "POST", "/storm":
                return self._begin_storm(request)
            case "POST", "/reset":
                self._counts = _Counts()
                return Response(200, b"{}")
            case _:
                return _error(404, f"the demo model does not serve {request.method} {request.path}")

    def _begin_storm(self, request: Request) -> Response:
        try:
            wanted = orjson.loads(request.body)
            hint = wanted["retry_after"]
            self.storm(float(wanted["seconds"]), None if hint is None else float(hint))
        except (ValueError, TypeError, KeyError):
            return _error(400, "send {seconds, retry_after}")
        return Response(200, b"{}")

    def _complete(self, request: Request) -> Response:
        counts = self._counts
        counts.requests += 1
        self._kept.append(request)
        self.request_times.append(now := time.monotonic())
        if now < self._storm_until:
            counts.errors += 1
            refusal = _error(429, "slow down: this is a storm")
            return replace(refusal, headers=tuple(self._storm_headers.items()))
        try:
            talk = replies.read_request(request.body)
            counts.add(talk.prompt_digest)
            turns = find_turns(talk.prompt, self._script)
        except (replies.BadRequest, ScriptError) as error:
            counts.errors += 1
            return _error(400, str(error))
        if turns is None:
            return self._play(replies.default_turn(talk), talk)
        turn = turns[min(talk.turn, len(turns) - 1)]
        if isinstance(turn, tuple):
            point = f"{talk.prompt_digest}/{talk.turn}"
            turn = turn[min(counts.attempts[point], len(turn) - 1)]
            counts.attempts[point] += 1
        if turn.status >= 400:
            counts.errors += 1
        return self._play(turn, talk)

    def _play(self, turn: Turn, talk: replies.Conversation) -> Response:
        content_type = "application/json"
        if turn.body is not None:
            body = turn.body.encode("utf-8", "replace") if isinstance(turn.body, str) else orjson.dumps(turn.body)
        elif turn.status >= 400:
            body = replies.error_body(turn.status, f"scripted error {turn.status}")
        elif talk.wants_stream:
            body, content_type = _streamed(turn, talk), "text/event-stream"
        else:
            body = orjson.dumps(replies.completion(turn, talk))
        return Response(
            turn.status,
            body,
            headers=tuple(turn.headers.items()),
            delay_seconds=turn.delay_ms / 1000 or self._delay_seconds,
            fault=turn.fault,
            content_type=content_type,
        )


def _streamed(turn: Turn, talk: replies.Conversation) -> bytes:
    events = streaming.events(replies.completion(turn, talk), with_usage=talk.wants_usage_in_stream)
    if turn.stream_fault is not None:
        events = streaming.first_half(events)
    if turn.stream_fault == "error":
        events.append({"error": {"message": "the provider broke off", "code": 502}})
    return streaming.encode(events, ended=turn.stream_fault is None)


async def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    delay_ms: int = 0,
    script: Script = (),
    started: Callable[[str], None] = lambda base_url: None,
) -> None:
    """Serve until cancelled. `started` is called once with the base URL when requests are accepted. Raises OSError."""
    async with DemoModel(script=script, host=host, port=port, delay_ms=delay_ms) as demo:
        started(demo.base_url)
        await demo.forever()


def _error(status: int, message: str) -> Response:
    return Response(status, replies.error_body(status, message))


_MODELS = orjson.dumps(
    {
        "object": "list",
        "data": [{"id": replies.MODEL, "object": "model", "created": 0, "owned_by": "batchrun (scripted, no model)"}],
    }
)
