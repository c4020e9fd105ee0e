"""What is sent, per flavour of server: snapshots in tests/golden/model, and headers as they arrive."""

import json
from pathlib import Path
from typing import Any

import pytest

from batchrun_api.spec.model import Model, OpenRouter, Providers, Reasoning, Sampling
from batchrun_runner.model.request import Flavour, body_of, flavour_of, standing_fields

GOLDEN = Path(__file__).parents[2] / "golden" / "model"

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "List the files."}]
TOOLS = [{"type": "function", "function": {"name": "terminal", "description": "Run it.", "parameters": {}}}]

EVERYTHING: dict[str, Any] = {
    "max_tokens": 2000,
    "sampling": Sampling(temperature=0.5, top_p=0.9, seed=7, stop=["END"]),
    "reasoning": Reasoning(effort="high"),
    "extra_body": {"top_k": 40},
}
BASE_URLS = {
    "openrouter": "https://openrouter.ai/api/v1",
    "openai": "https://api.openai.com/v1",
    "vllm": "http://vllm.models.svc:8000/v1",
    "other": "http://llama.models.svc:8080/v1",
}
PROVIDERS = OpenRouter(providers=Providers(allowed=["a"], ignored=["b"], order=["a", "c"], sort="throughput"))
CASES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "everything": EVERYTHING,
    "no-reasoning": {"reasoning": Reasoning(effort="none")},
    "stream": {"stream": True},
}


@pytest.mark.parametrize("flavour", BASE_URLS)
@pytest.mark.parametrize("case", CASES)
def test_the_request_is_as_in_its_snapshot(flavour: str, case: str, request: pytest.FixtureRequest) -> None:
    fields = dict(CASES[case])
    if flavour == "openrouter" and case == "everything":
        fields["open_router"] = PROVIDERS
    if flavour == "vllm":
        fields["server"] = "VLLM"
    model = Model(name="vendor/model", base_url=BASE_URLS[flavour], **fields)
    body = json.dumps(body_of(standing_fields(model), MESSAGES, TOOLS), indent=2) + "\n"
    path = GOLDEN / f"{flavour}-{case}.json"
    if not path.exists():
        path.write_text(body)
        pytest.fail(f"{path.name} was missing and is written now: look at it")
    assert body == path.read_text()


def test_without_tools_their_keys_are_left_out() -> None:
    fields = standing_fields(Model(extra_body={"tool_choice": "required", "parallel_tool_calls": False}))
    assert {"tools", "tool_choice", "parallel_tool_calls"} <= set(body_of(fields, MESSAGES, TOOLS))
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(body_of(fields, MESSAGES, []))


@pytest.mark.parametrize(
    ("base_url", "server", "flavour"),
    [
        ("https://openrouter.ai/api/v1", "Auto", Flavour.OPENROUTER),
        ("https://eu.openrouter.ai/api/v1", "Auto", Flavour.OPENROUTER),
        ("https://notopenrouter.ai/v1", "Auto", Flavour.OTHER),
        ("https://api.openai.com/v1", "Auto", Flavour.OPENAI),
        ("http://localhost:8000/v1", "Auto", Flavour.OTHER),
        ("http://localhost:8000/v1", "OpenRouter", Flavour.OPENROUTER),
        ("https://openrouter.ai/api/v1", "Other", Flavour.OTHER),
    ],
)
def test_the_dialect_is_that_of_the_host_unless_the_run_names_one(base_url: str, server: Any, flavour: Flavour) -> None:
    assert flavour_of(Model(base_url=base_url, server=server)) is flavour


async def test_the_closing_call_offers_no_tools(lab: Any) -> None:
    await lab.ask({"content": "done"}, final=True)
    assert "tools" not in lab.sent[0]
    await lab.ask({"content": "done"})
    assert len(lab.sent[1]["tools"]) == 3


async def test_the_key_is_sent_as_bearer(lab: Any) -> None:
    lab.api_key = "sk-test"
    await lab.ask({"content": "done"})
    assert lab.headers[0]["authorization"] == "Bearer sk-test"


async def test_without_a_key_none_is_sent_not_even_one_that_lies_around(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-somebody-elses")
    monkeypatch.setenv("OPENAI_ADMIN_KEY", "sk-admin")
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-1")
    await lab.ask({"content": "done"})
    (headers,) = lab.headers
    assert "authorization" not in headers
    assert not {"openai-organization", "openai-project"} & set(headers)


async def test_one_connection_serves_many_calls(lab: Any) -> None:
    from batchrun_runner.demo_model.server import DemoModel
    from batchrun_runner.model.client import ModelClient

    async with DemoModel() as demo, ModelClient(Model(base_url=demo.base_url)) as client:
        for _ in range(3):
            await client.query([{"role": "user", "content": "x"}], [])
        assert demo.connections == 1
