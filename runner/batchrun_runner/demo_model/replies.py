"""What the demo model answers when no script says otherwise: a few sensible tool calls, then a final answer.

Everything is a function of the request: the same conversation gets the same reply, ids included.
"""

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any

import orjson

from batchrun_runner.demo_model.script import ScriptedCall, Turn

MODEL = "demo/scripted"
FINGERPRINT = "batchrun-demo-scripted"
QUOTED_CHARS = 400
"""How much of a tool's output the final answer quotes, from its start."""

_ERROR = re.compile(r'"error":\s*"')


class BadRequest(ValueError):
    """The request is not a chat completion request; the message says why."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a reply depends on."""

    prompt: str
    turn: int
    """Number of this turn, from 0: assistant messages after the prompt."""
    last_output: str = ""
    """Content of the last tool message after the prompt."""
    a_tool_failed: bool = False
    """A tool message after the prompt has an error field with text."""
    tools: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Parameter schema by name of the offered tools."""
    wants_reasoning: bool = True
    wants_stream: bool = False
    wants_usage_in_stream: bool = False
    digest: str = ""
    """Of all messages; makes ids."""
    prompt_chars: int = 0

    @property
    def prompt_digest(self) -> str:
        """What the default command prints, and the key of `/stats` by prompt."""
        return digest_of(self.prompt.encode("utf-8", "replace"))


def digest_of(data: bytes) -> str:
    """16 hex digits."""
    return hashlib.sha256(data).hexdigest()[:16]


def read_request(body: bytes) -> Conversation:
    """The conversation in a request body. Raises BadRequest."""
    try:
        request = orjson.loads(body)
    except ValueError as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
    if not isinstance(request, dict):
        raise BadRequest("the body is not a JSON object")
    messages = _checked_messages(request.get("messages"))
    start = _prompt_position(messages)
    after = messages[start + 1 :]
    outputs = [_text(message.get("content")) for message in after if message["role"] == "tool"]
    dumped = orjson.dumps(messages)
    return Conversation(
        prompt=_text(messages[start].get("content")),
        turn=sum(message["role"] == "assistant" for message in after),
        last_output=outputs[-1] if outputs else "",
        a_tool_failed=any(_ERROR.search(output) for output in outputs),
        tools=_offered_tools(request),
        wants_reasoning=not _reasoning_is_off(request),
        wants_stream=bool(request.get("stream")),
        wants_usage_in_stream=bool((request.get("stream_options") or {}).get("include_usage")),
        digest=digest_of(dumped),
        prompt_chars=len(dumped),
    )


def default_turn(talk: Conversation) -> Turn:
    """The next turn of a conversation without a script."""
    steps = _plan(talk)
    if talk.turn < len(steps):
        name, arguments = steps[talk.turn]
        return Turn(
            content=f"I call {name}.",
            reasoning=f"Step {talk.turn + 1} of this prompt: {name} shows what I need to know.",
            tool_calls=(ScriptedCall(name=name, arguments=arguments),),
        )
    if talk.last_output:
        answer = f"Done (scripted demo model). The last tool said:\n{talk.last_output[:QUOTED_CHARS]}"
    else:
        answer = f"Done (scripted demo model). The prompt's digest is {talk.prompt_digest}."
    return Turn(content=answer, reasoning="I have what I need, so I answer.")


def completion(turn: Turn, talk: Conversation) -> dict[str, Any]:
    """The turn as a chat completion object."""
    message: dict[str, Any] = {"role": "assistant", "content": turn.content}
    if turn.reasoning is not None and talk.wants_reasoning:
        message["reasoning"] = turn.reasoning
    if turn.tool_calls:
        message["tool_calls"] = [
            {
                "id": f"call_{talk.digest}_{number}" if call.id is None else call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _as_text(call.arguments)},
            }
            for number, call in enumerate(turn.tool_calls)
        ]
    message.update(turn.message)
    reply: dict[str, Any] = {
        "id": f"chatcmpl-{talk.digest}",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "system_fingerprint": FINGERPRINT,
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": None,
                "finish_reason": turn.finish_reason or ("tool_calls" if message.get("tool_calls") else "stop"),
            }
        ],
        "usage": turn.usage if "usage" in turn.model_fields_set else _usage(message, talk),
    }
    for key in turn.omit:
        reply.pop(key, None)
    return reply


def error_body(status: int, message: str) -> bytes:
    """An error as OpenAI words it."""
    kind = "invalid_request_error" if status < 500 and status != 429 else "server_error"
    return orjson.dumps({"error": {"message": message, "type": kind, "param": None, "code": None}})


def _plan(talk: Conversation) -> list[tuple[str, dict[str, Any]]]:
    """The tool calls of this prompt. Half of the prompts use files too, all where `terminal` is missing or failed."""
    digest, tools = talk.prompt_digest, talk.tools
    steps: list[tuple[str, dict[str, Any]]] = []
    if "terminal" in tools:
        command = f'echo "prompt {digest}"; echo "boot $BATCHRUN_BOOT_ID"'
        steps.append(("terminal", {_parameter(tools["terminal"], "command", "cmd"): command}))
    if "terminal" not in tools or int(digest, 16) % 2 == 0 or talk.a_tool_failed:
        path = f"demo-{digest}.txt"
        if "write_file" in tools:
            schema = tools["write_file"]
            content = {_parameter(schema, "content", "text"): f"prompt {digest}\n"}
            steps.append(("write_file", {_parameter(schema, "path", "file_path"): path, **content}))
        if "read_file" in tools:
            steps.append(("read_file", {_parameter(tools["read_file"], "path", "file_path"): path}))
    return steps


def _parameter(schema: dict[str, Any], *names: str) -> str:
    """The first of the names that the tool knows, else the first name."""
    known = schema.get("properties")
    return next((name for name in names if isinstance(known, dict) and name in known), names[0])


def _checked_messages(messages: object) -> list[dict[str, Any]]:
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages must be a list with at least one message")
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise BadRequest(f"messages[{number}] is not a message")
        if message["role"] == "assistant":
            _check_calls(message, number)
            _check_results(messages, number)
    if not any(message["role"] == "user" for message in messages):
        raise BadRequest("messages holds no user message")
    return messages


def _check_calls(message: dict[str, Any], number: int) -> None:
    """As strict as the strictest servers are about what is sent back to them (b01, b05)."""
    if "tool_calls" not in message:
        return
    calls = message["tool_calls"]
    if not isinstance(calls, list) or not calls:
        raise BadRequest(f"messages[{number}].tool_calls must hold at least one call")
    for call in calls:
        try:
            orjson.loads(call["function"]["arguments"])
        except (TypeError, KeyError, ValueError):
            raise BadRequest(f"messages[{number}].tool_calls: arguments are not JSON") from None


def _check_results(messages: list[Any], number: int) -> None:
    """Exactly one tool message for each call, directly after it (b04, b17)."""
    asked = [call.get("id") for call in messages[number].get("tool_calls") or ()]
    if len(set(asked)) != len(asked) or not all(isinstance(call_id, str) and call_id for call_id in asked):
        raise BadRequest(f"messages[{number}].tool_calls: ids must be unique texts")
    after = messages[number + 1 : number + 1 + len(asked)]
    answered = [message.get("tool_call_id") for message in after if isinstance(message, dict)]
    if sorted(map(str, answered)) != sorted(map(str, asked)):
        raise BadRequest(f"messages[{number}].tool_calls: each call wants one tool message directly after it")


def _prompt_position(messages: list[dict[str, Any]]) -> int:
    """Index of the prompt: the last user message, but not one that follows a tool result (that one urges an end)."""
    users = [number for number, message in enumerate(messages) if message["role"] == "user"]
    prompts = [number for number in users if number == 0 or messages[number - 1]["role"] != "tool"]
    return prompts[-1] if prompts else users[-1]


def _offered_tools(request: dict[str, Any]) -> dict[str, dict[str, Any]]:
    tools = request.get("tools")
    if tools is None:
        return {}
    try:
        offered = {tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in tools}
    except (TypeError, KeyError, AttributeError):
        raise BadRequest("tools must be a list of {type, function: {name, ...}}") from None
    return {} if request.get("tool_choice") == "none" else offered


def _reasoning_is_off(request: dict[str, Any]) -> bool:
    reasoning = request.get("reasoning")
    disabled = isinstance(reasoning, dict) and reasoning.get("enabled") is False
    return disabled or request.get("reasoning_effort") == "none"


def _usage(message: dict[str, Any], talk: Conversation) -> dict[str, Any]:
    reasoning = len(str(message.get("reasoning") or "")) // 4
    answer = len(str(message.get("content") or "")) // 4 + 8 * len(message.get("tool_calls") or ()) + 1
    prompt = talk.prompt_chars // 4
    return {
        "prompt_tokens": prompt,
        "completion_tokens": answer + reasoning,
        "total_tokens": prompt + answer + reasoning,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": reasoning},
    }


def _as_text(arguments: dict[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
    return ""
