"""The demo model over real HTTP: deterministic, scripted, and never down for what a client sends."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from batchrun_runner.demo_model.script import ScriptError, load_script, parse_script
from batchrun_runner.demo_model.server import DemoModel

TERMINAL = {"type": "function", "function": {"name": "terminal", "parameters": {"properties": {"command": {}}}}}
WRITE = {"type": "function", "function": {"name": "write_file", "parameters": {"properties": {"path": {}}}}}
READ = {"type": "function", "function": {"name": "read_file", "parameters": {"properties": {"path": {}}}}}
PROMPT = {"role": "user", "content": "Count the primes below ten."}


@pytest.fixture
async def demo() -> AsyncIterator[DemoModel]:
    async with DemoModel(keep=4) as demo:
        yield demo


@pytest.fixture
async def http(demo: DemoModel) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=demo.base_url, trust_env=False) as http:
        yield http


async def complete(http: httpx.AsyncClient, *messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    response = await http.post("/chat/completions", json={"model": "any", "messages": list(messages), **fields})
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


async def play(http: httpx.AsyncClient, tools: list[dict[str, Any]], output: str) -> list[dict[str, Any]]:
    """Assistant messages until the final answer; every call gets `output`."""
    messages, said = [PROMPT], []
    while True:
        message = (await complete(http, *messages, tools=tools))["choices"][0]["message"]
        said.append(message)
        if "tool_calls" not in message:
            return said
        messages += [message, {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": output}]


async def test_the_first_turn_thinks_and_calls_the_terminal_for_digest_and_boot_id(http: httpx.AsyncClient) -> None:
    reply = await complete(http, PROMPT, tools=[WRITE, TERMINAL])
    message = reply["choices"][0]["message"]
    assert message["reasoning"]
    assert reply["choices"][0]["finish_reason"] == "tool_calls"
    call = message["tool_calls"][0]["function"]
    assert call["name"] == "terminal"
    assert "$BATCHRUN_BOOT_ID" in json.loads(call["arguments"])["command"]
    assert reply["usage"]["completion_tokens_details"]["reasoning_tokens"] > 0
    assert reply["model"] == "demo/scripted"
    assert "scripted" in reply["system_fingerprint"]


async def test_the_final_answer_quotes_the_last_output_and_says_that_it_is_scripted(http: httpx.AsyncClient) -> None:
    said = await play(http, [TERMINAL], "boot 1234")
    assert "boot 1234" in said[-1]["content"]
    assert "scripted" in said[-1]["content"]


async def test_without_a_terminal_it_writes_and_reads_a_file(http: httpx.AsyncClient) -> None:
    said = await play(http, [WRITE, READ], "fine")
    assert [m["tool_calls"][0]["function"]["name"] for m in said[:-1]] == ["write_file", "read_file"]


async def test_when_the_terminal_fails_the_files_are_tried(http: httpx.AsyncClient) -> None:
    said = await play(http, [TERMINAL, WRITE, READ], '{"error": "no shell in this image"}')
    names = [m["tool_calls"][0]["function"]["name"] for m in said[:-1]]
    assert names == ["terminal", "write_file", "read_file"]


async def test_without_tools_it_answers_at_once(http: httpx.AsyncClient) -> None:
    reply = await complete(http, PROMPT)
    assert reply["choices"][0]["finish_reason"] == "stop"
    assert "tool_calls" not in reply["choices"][0]["message"]


async def test_equal_conversations_get_equal_replies_and_others_other_ids(http: httpx.AsyncClient) -> None:
    first = await complete(http, PROMPT, tools=[TERMINAL])
    assert await complete(http, PROMPT, tools=[TERMINAL]) == first
    other = await complete(http, {"role": "user", "content": "another"}, tools=[TERMINAL])
    assert other["id"] != first["id"]


async def test_few_shot_messages_do_not_count_as_turns(http: httpx.AsyncClient) -> None:
    prefill = [{"role": "user", "content": "example"}, {"role": "assistant", "content": "answer"}]
    reply = await complete(http, *prefill, PROMPT, tools=[TERMINAL])
    assert reply["choices"][0]["finish_reason"] == "tool_calls"


async def test_a_user_message_after_a_tool_result_is_no_new_prompt(http: httpx.AsyncClient) -> None:
    first = (await complete(http, PROMPT, tools=[TERMINAL]))["choices"][0]["message"]
    result = {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"], "content": "boot 77"}
    reply = await complete(http, PROMPT, first, result, {"role": "user", "content": "Answer now."})
    assert "boot 77" in reply["choices"][0]["message"]["content"]


@pytest.mark.parametrize("off", [{"reasoning": {"enabled": False}}, {"reasoning_effort": "none"}])
async def test_switched_off_reasoning_is_off(http: httpx.AsyncClient, off: dict[str, Any]) -> None:
    reply = await complete(http, PROMPT, tools=[TERMINAL], **off)
    assert "reasoning" not in reply["choices"][0]["message"]
    assert reply["usage"]["completion_tokens_details"]["reasoning_tokens"] == 0


async def test_a_demo_block_in_the_prompt_is_played_turn_by_turn(http: httpx.AsyncClient) -> None:
    turns = [{"tool_calls": [{"name": "terminal", "arguments": {"command": "ls"}}]}, {"content": "done"}]
    prompt = {"role": "user", "content": f"Do it.\n```demo\n{json.dumps(turns)}\n```\n"}
    first = (await complete(http, prompt, tools=[TERMINAL]))["choices"][0]["message"]
    assert json.loads(first["tool_calls"][0]["function"]["arguments"]) == {"command": "ls"}
    result = {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"], "content": "a"}
    reply = await complete(http, prompt, first, result)
    assert reply["choices"][0]["message"]["content"] == "done"


@pytest.mark.parametrize("answered", [[], ["other"], ["a", "a"], ["a"]])
async def test_calls_whose_results_are_not_exactly_theirs_are_refused(
    http: httpx.AsyncClient, answered: list[str]
) -> None:
    """b04, b17: as the strictest servers do."""
    calls = [{"id": made, "type": "function", "function": {"name": "t", "arguments": "{}"}} for made in ("a", "b")]
    said = {"role": "assistant", "content": "", "tool_calls": calls}
    results = [{"role": "tool", "tool_call_id": made, "content": "x"} for made in answered]
    refused = await http.post("/chat/completions", json={"messages": [PROMPT, said, *results]})
    assert refused.status_code == 400
    assert "each call wants one tool message" in refused.text


async def test_a_script_plays_statuses_headers_bodies_and_attempts() -> None:
    script = parse_script(
        [
            {"match": "nothing like it", "turns": [{"content": "no"}]},
            {
                "match": "primes",
                "turns": [
                    [
                        {"status": 429, "headers": {"Retry-After": "7"}},
                        {"status": 500, "body": "<html>"},
                        {"content": "2 3 5 7", "omit": ["usage"], "message": {"role": "assistant", "tool_calls": []}},
                    ]
                ],
            },
        ]
    )
    async with DemoModel(script=script) as demo, httpx.AsyncClient(base_url=demo.base_url, trust_env=False) as http:
        body = {"model": "m", "messages": [PROMPT]}
        limited = await http.post("/chat/completions", json=body)
        assert (limited.status_code, limited.headers["retry-after"]) == (429, "7")
        assert limited.json()["error"]["message"]
        broken = await http.post("/chat/completions", json=body)
        assert (broken.status_code, broken.text) == (500, "<html>")
        for _ in range(2):
            good = (await http.post("/chat/completions", json=body)).json()
            assert good["choices"][0]["message"]["content"] == "2 3 5 7"
            assert good["choices"][0]["message"]["tool_calls"] == []
            assert "usage" not in good


async def test_stats_count_by_prompt_until_reset(demo: DemoModel, http: httpx.AsyncClient) -> None:
    await complete(http, PROMPT)
    await complete(http, PROMPT)
    await complete(http, {"role": "user", "content": "another"})
    stats = (await http.get(demo.base_url.removesuffix("/v1") + "/stats")).json()
    assert stats["requests"] == demo.requests == 3
    assert sorted(stats["by_prompt"].values()) == [1, 2]
    await http.post("/reset")
    assert (await http.get("/stats")).json() == {"requests": 0, "errors": 0, "prompts": 0, "by_prompt": {}}


async def test_models_names_the_scripted_one(http: httpx.AsyncClient) -> None:
    assert [model["id"] for model in (await http.get("/models")).json()["data"]] == ["demo/scripted"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"messages": []}', "at least one message"),
        (b'{"messages": [5]}', "messages[0]"),
        (b'{"messages": [{"role": "assistant", "content": "x"}]}', "no user message"),
        (b'{"messages": [{"role": "user", "content": "x"}], "tools": [{}]}', "tools must be"),
        (b'{"messages": [{"role": "user"}, {"role": "assistant", "tool_calls": []}]}', "at least one call"),
        (
            b'{"messages": [{"role":"user"}, {"role":"assistant", "tool_calls":[{"function":{"arguments":"{"}}]}]}',
            "arguments are not JSON",
        ),
        (b'{"messages": [{"role": "user", "content": "```demo\\n[]\\n```"}]}', "demo block"),
    ],
)
async def test_a_bad_request_gets_an_openai_style_400_and_the_server_goes_on(
    http: httpx.AsyncClient, content: bytes, words: str
) -> None:
    refused = await http.post("/chat/completions", content=content)
    assert refused.status_code == 400
    assert words in refused.json()["error"]["message"]
    await complete(http, PROMPT)


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"rubbish\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"GET / HTTP/1.1\r\nx: " + b"x" * 70_000, 431),
        (b"GET /nowhere HTTP/1.0\r\n\r\n", 404),
        (
            b"POST /v1/reset HTTP/1.1\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
            200,
        ),
    ],
)
async def test_bytes_that_are_no_good_request_get_a_status_and_a_closed_connection(
    demo: DemoModel, sent: bytes, status: int
) -> None:
    url = httpx.URL(demo.base_url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(sent)
    assert f"HTTP/1.1 {status} ".encode() in await reader.read()
    writer.close()
    await writer.wait_closed()


async def test_two_requests_in_one_packet_are_answered_in_order(demo: DemoModel) -> None:
    url = httpx.URL(demo.base_url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(b"GET /v1/models HTTP/1.1\r\n\r\nGET /stats HTTP/1.1\r\nconnection: close\r\n\r\n")
    replies = await reader.read()
    assert replies.index(b"demo/scripted") < replies.index(b"by_prompt")
    writer.close()
    await writer.wait_closed()


def test_a_script_file_is_read_as_json_or_yaml(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"match": "x", "turns": [{"content": "y"}]}]')
    (tmp_path / "a.yaml").write_text("- match: x\n  turns:\n  - content: y\n")
    assert load_script(tmp_path / "a.json") == load_script(tmp_path / "a.yaml")


@pytest.mark.parametrize(
    ("text", "words"),
    [("{", "JSON"), ('[{"match": ""}]', "turns"), ('[{"match": "(", "turns": [{}]}]', "unterminated"), ("5", "array")],
)
def test_a_script_that_is_none_is_refused_with_the_place(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(ScriptError, match=r"bad\.json") as refused:
        load_script(tmp_path / "bad.json")
    assert words in str(refused.value)
