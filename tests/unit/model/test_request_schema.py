"""Every request against OpenAI's published schema, as the openai package types it."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from openai.types.chat.completion_create_params import (
    CompletionCreateParams,
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)
from pydantic import TypeAdapter, ValidationError

from batchrun_api.spec.model import Reasoning, Sampling

GOLDEN = Path(__file__).parents[2] / "golden" / "model"
SCHEMA: TypeAdapter[Any] = TypeAdapter(CompletionCreateParams)
PUBLISHED = {
    *get_type_hints(CompletionCreateParamsNonStreaming),
    *get_type_hints(CompletionCreateParamsStreaming),
}
BEYOND = {
    "openrouter": {"reasoning", "provider", "top_k"},
    "openai": {"top_k"},
    "vllm": {"chat_template_kwargs", "top_k"},
    "other": {"top_k"},
}
"""What is not in the schema: a dialect's own fields, and `top_k`, which the snapshots' `extraBody` asks for."""
EFFORTS = get_args(get_args(Reasoning.model_fields["effort"].annotation)[0])


def check(body: Mapping[str, Any]) -> None:
    """Raises ValidationError. Lists are validated as they are read, so they are read."""
    _read_all(SCHEMA.validate_python(dict(body)))


def _read_all(value: Any) -> None:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        for item in value:
            _read_all(item)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_a_snapshot_is_a_request_of_the_published_schema(path: Path) -> None:
    body = json.loads(path.read_text())
    check(body)
    assert set(body) - PUBLISHED <= BEYOND[path.stem.partition("-")[0]]


@pytest.mark.parametrize(
    "body",
    [
        {"model": "m", "messages": [{"role": "user"}]},
        {"model": "m", "messages": [{"role": "user", "content": "x"}], "temperature": "hot"},
        {"model": "m", "messages": [{"role": "tool", "content": "x"}]},
        {"messages": [{"role": "user", "content": "x"}]},
    ],
)
def test_the_check_refuses_what_is_not_of_the_schema(body: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        check(body)


@pytest.mark.parametrize("effort", EFFORTS)
async def test_every_effort_is_one_that_openai_knows(lab: Any, effort: Any) -> None:
    await lab.ask({"content": "x"}, reasoning=Reasoning(effort=effort), server="OpenAI")
    assert lab.sent[0]["reasoning_effort"] == effort
    check(lab.sent[0])


@pytest.mark.parametrize("server", ["OpenAI", "VLLM", "Other"])
async def test_whole_conversations_with_calls_and_odd_replies_stay_within_the_schema(lab: Any, server: Any) -> None:
    """Two odd replies, sent back with the results of their calls."""
    turns: list[dict[str, Any]] = [
        {"content": None, "message": {"tool_calls": [{"id": "", "function": {"name": "a.b", "arguments": {"x": 1}}}]}},
        {"content": "", "message": {"tool_calls": [{"id": "c", "function": {"name": "list", "arguments": "{broken"}}]}},
    ]
    messages: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Do it."}]
    for turn in [*turns, {"content": "done"}]:
        answer: list[dict[str, Any]] = [{}] * sum(message["role"] == "assistant" for message in messages)
        reply = await lab.ask(
            *answer,
            turn,
            messages=messages,
            server=server,
            stream=True,
            max_tokens=5,
            sampling=Sampling(temperature=0.5, top_p=0.9, seed=7, stop=["END"]),
        )
        messages.append(reply.message)
        messages += [{"role": "tool", "tool_call_id": call.id, "content": "ok"} for call in reply.calls]
    assert len(lab.sent) == 3
    for body in lab.sent:
        check(body)
        assert set(body) <= PUBLISHED
