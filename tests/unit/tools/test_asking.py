"""Models that tools ask: real clients, a real server."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any, cast

import pytest
import pytest_asyncio

from batchrun_api.spec import BatchRun
from batchrun_api.spec.model import Model
from batchrun_api.spec.tool_models import ModelRef
from batchrun_runner import settings as run_settings
from batchrun_runner.demo_model.script import parse_script
from batchrun_runner.demo_model.server import DemoModel
from batchrun_runner.model.client import ModelClient
from batchrun_runner.records import Usage
from batchrun_runner.sandbox.interface import Sandbox
from batchrun_runner.settings import RunSettings
from batchrun_runner.tools import registry
from batchrun_runner.tools.asking import AskedModel, AskedModels, model_of
from batchrun_runner.tools.context import ToolContext, ToolFailure

NO_SANDBOX = cast("Sandbox", None)
USAGE = {"prompt_tokens": 5, "completion_tokens": 6}
ASK = [{"role": "user", "content": "Well?"}]


def settings(base_url: str, **spec: Any) -> RunSettings:
    model = {"name": "own", "baseURL": base_url}
    document = {
        "apiVersion": "batchrun.dev/v1alpha1",
        "kind": "BatchRun",
        "metadata": {"name": "r"},
        "spec": {"dataset": {"inline": '{"prompt": "a"}'}, "model": model, **spec},
    }
    return run_settings.from_batchrun(BatchRun.model_validate(document), environ={})


@pytest.fixture
def context() -> ToolContext:
    return ToolContext(NO_SANDBOX, "/", ("vision_analyze",))


@pytest_asyncio.fixture
async def asked() -> AsyncIterator[Callable[..., Any]]:
    """`await asked(turn, seconds)`: the second model, which answers with the turn."""
    async with AsyncExitStack() as stack:

        async def make(turn: Any, seconds: int = 30) -> AskedModel:
            script = parse_script([{"match": "", "turns": [turn]}])
            demo = await stack.enter_async_context(DemoModel(script=script))
            client = await stack.enter_async_context(ModelClient(Model(name="second", base_url=demo.base_url)))
            return AskedModel("second", client, seconds)

        yield make


async def test_an_answer_is_its_text_and_its_tokens_are_counted(asked: Any, context: ToolContext) -> None:
    model = await asked({"content": " Fine. ", "reasoning": "hm", "usage": USAGE})

    assert await model.answer(ASK, context) == "Fine."
    assert context.take_usage() == Usage(prompt_tokens=5, completion_tokens=6)
    assert context.take_usage() == Usage()


async def test_an_answer_that_was_cut_says_so(asked: Any, context: ToolContext) -> None:
    model = await asked({"content": "Once upon", "finish_reason": "length"})

    assert await model.answer(ASK, context) == "Once upon\n[the answer was cut at the limit of tokens]"


@pytest.mark.parametrize(
    ("turn", "kind", "words"),
    [
        ({"content": " ", "usage": USAGE}, "provider_error", "second: EmptyReply"),
        ({"content": "x", "finish_reason": "content_filter", "usage": USAGE}, "provider_error", "ContentFiltered"),
        ({"status": 401}, "provider_error", "second: InvalidCredentials: HTTP 401"),
        ({"status": 404}, "provider_error", "second: ModelNotFound"),
        ({"status": 400}, "provider_error", "second: InvalidRequest"),
        ({"fault": "hang"}, "timeout", "second did not answer within 1 s"),
        ({"status": 429, "headers": {"retry-after": "60"}}, "timeout", "second did not answer within 1 s"),
    ],
)
async def test_whatever_fails_is_a_failure_of_the_tool_in_time(
    asked: Any, context: ToolContext, turn: dict[str, Any], kind: str, words: str
) -> None:
    model = await asked(turn, 1)
    with pytest.raises(ToolFailure, match=words) as caught:
        await model.answer(ASK, context)

    assert caught.value.kind == kind
    assert context.take_usage().total_tokens == (11 if "usage" in turn else 0)


async def test_a_time_limit_from_outside_is_no_failure_of_the_tool(asked: Any, context: ToolContext) -> None:
    model = await asked({"fault": "hang"})
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(model.answer(ASK, context), 0.2)


async def test_data_of_pictures_in_a_servers_words_is_not_passed_on(asked: Any, context: ToolContext) -> None:
    body = {"error": {"message": f"cannot read data:image/png;base64,{'iVBORw0KGgo' * 40} at all"}}
    model = await asked({"status": 400, "body": body})
    with pytest.raises(ToolFailure) as caught:
        await model.answer(ASK, context)

    assert "data:image/png;base64,(data)" in caught.value.message
    assert "iVBOR" not in caught.value.message


async def test_tools_that_ask_one_model_share_its_client_and_the_runs_own_is_the_runs() -> None:
    run = settings("http://127.0.0.1:1/v1")
    async with ModelClient.from_settings(run) as own, AsyncExitStack() as stack:
        models = AskedModels(run, own, stack)
        refs = [ModelRef(name="a"), ModelRef(name="a", base_url="http://127.0.0.1:1/v1"), ModelRef(name="b"), None]
        one, same, other, runs_own = [(await models.of("vision", ref)).client for ref in refs]

    assert one is same
    assert len({id(client) for client in (one, other, runs_own)}) == 3
    assert runs_own is own


def test_a_model_of_a_tool_is_asked_in_the_dialect_of_the_runs_server_only_there_and_never_with_its_sampling() -> None:
    own = Model.model_validate(
        {
            "name": "own",
            "baseURL": "https://gateway.example.com/v1",
            "server": "OpenRouter",
            "openRouter": {"providers": {"ignored": ["curious"]}},
            "sampling": {"temperature": 1.5},
            "reasoning": {"effort": "high"},
            "extraBody": {"user": "me"},
            "maxTokens": 5,
            "timeoutSeconds": 9,
        }
    )
    here = model_of(ModelRef(name="b"), own)
    there = model_of(ModelRef(name="b", base_url="https://other.example.com/v1"), own)

    assert (here.server, here.open_router.providers.ignored, here.timeout_seconds) == ("OpenRouter", ["curious"], 9)
    assert (there.server, there.open_router.providers.given, there.timeout_seconds) == ("Auto", False, 9)
    for model in (here, there):
        assert (model.name, model.max_tokens, model.extra_body) == ("b", None, None)
        assert model.sampling.temperature is None
        assert model.reasoning.effort is None


async def test_a_fault_of_ours_in_a_tool_fails_the_call_without_quoting_anything(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def faulty(*_: Any) -> Any:
        raise KeyError("SECRET")

    monkeypatch.setattr("batchrun_runner.tools.vision.read_file", faulty)
    monkeypatch.setattr("batchrun_runner.tools.vision._vision", lambda context: None)
    said = await registry.execute("vision_analyze", {"question": "What?", "path": "p"}, context)

    assert (said.failed, said.error_kind) == (True, "internal")
    assert "KeyError in test_asking.py:" in said.content
    assert "SECRET" not in said.content
