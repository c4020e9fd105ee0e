"""`--format openai`: messages as the API has them, loadable by the real library and by a chat template."""

import json
from pathlib import Path
from typing import Any

import datasets
import jinja2
import pytest
from tests.unit.data.support import Run, answered, failed, reference_rows
from tests.unit.export.support import COMMAND, RESULT, TOOLS, lines, load, rich

from batchrun_runner.export.command import run_export
from batchrun_runner.export.options import ExportOptions, Format, Reasoning

FEATURES = datasets.Features(
    {
        "messages": datasets.List(datasets.Json()),
        "tools": datasets.List(datasets.Json()),
        "prompt_index": datasets.Value("int64"),
        "sample": datasets.Value("int64"),
        "key": datasets.Value("string"),
        "id": datasets.Value("string"),
        "outcome": datasets.Value("string"),
        "reason": datasets.Value("string"),
        "completed": datasets.Value("bool"),
        "reward": datasets.Value("float64"),
        "model": datasets.Value("string"),
    }
)
"""As docs/trajectories.md has them."""


def export(folder: Path, **options: Any) -> list[dict[str, Any]]:
    assert run_export(folder, ExportOptions(Format.OPENAI, **options)) == 0
    return lines(folder / "trajectories.openai.jsonl")


def test_a_conversation_becomes_the_messages_of_the_api(run: Run, folder: Path) -> None:
    run.agent = rich
    run.run([{"prompt": "Do it.", "id": "t/1"}])
    (made,) = export(folder)
    assert made["messages"] == [
        {"role": "system", "content": "You are careful."},
        {"role": "user", "content": "Do it."},
        {
            "role": "assistant",
            "content": "I look.",
            "reasoning_content": "First </think> I look.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "terminal", "arguments": COMMAND}},
                {"id": "c2", "type": "function", "function": {"name": "read_file", "arguments": '{"path":"a"}'}},
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "name": "terminal", "content": RESULT},
        {"role": "tool", "tool_call_id": "c2", "name": "read_file", "content": "plain"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c3", "type": "function", "function": {"name": "terminal", "arguments": COMMAND}}],
        },
        {"role": "tool", "tool_call_id": "c3", "name": "terminal", "content": "[1, 2]"},
        {"role": "assistant", "content": "The answer.", "reasoning_content": "I know\nit."},
    ]
    assert made["tools"] == TOOLS
    row = run.rows()[0]
    assert {
        name: made[name] for name in ("prompt_index", "sample", "key", "id", "outcome", "reason", "completed", "reward")
    } == {
        name: row[name] for name in ("prompt_index", "sample", "key", "id", "outcome", "reason", "completed", "reward")
    }
    assert made["model"] == "m"


def test_reasoning_goes_where_it_is_asked_for(run: Run, folder: Path) -> None:
    run.agent = rich
    run.run(["p"])
    (tagged,) = export(folder, reasoning=Reasoning.TAGS)
    assert tagged["messages"][-1] == {"role": "assistant", "content": "<think>\nI know\nit.\n</think>\nThe answer."}
    (without,) = export(folder, reasoning=Reasoning.DROP)
    assert without["messages"][-1] == {"role": "assistant", "content": "The answer."}


def test_tools_as_one_string_and_no_metadata(run: Run, folder: Path) -> None:
    run.agent = rich
    run.run(["p"])
    (made,) = export(folder, tools_as_json=True, metadata=False)
    assert list(made) == ["messages", "tools"]
    assert json.loads(made["tools"]) == TOOLS


def test_only_completed_rows_when_asked(run: Run, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run.agent = lambda row: failed(row) if row.index == 1 else answered(row)
    run.run(["a", "b", "c"])
    assert [row["outcome"] for row in export(folder)] == ["completed", "failed", "completed"]
    assert [row["prompt_index"] for row in export(folder, completed_only=True)] == [0, 2]
    assert "2 rows, 1 left out" in capsys.readouterr().out


def test_rows_of_the_reference_have_their_calls_taken_out_of_the_text(run: Run, folder: Path) -> None:
    call = '{"name": "terminal", "arguments": {"command": "ls"}}'
    response = '{"tool_call_id": "x1", "name": "terminal", "content": {"output": "a"}}'
    turns = [
        {"from": "human", "value": "p"},
        {"from": "gpt", "value": f"<think>\nhm\n</think>\nI look.\n<tool_call>\n{call}\n</tool_call>"},
        {"from": "tool", "value": f"<tool_response>\n{response}\n</tool_response>"},
        {"from": "gpt", "value": "<think>\n</think>\ndone"},
    ]
    run.store.put("batch_0.jsonl", reference_rows(["p"], conversations=turns).encode())
    run.run(["p"])
    (made,) = export(folder)
    assert made["messages"][1:] == [
        {
            "role": "assistant",
            "content": "I look.",
            "reasoning_content": "hm",
            "tool_calls": [
                {"id": "x1", "type": "function", "function": {"name": "terminal", "arguments": '{"command":"ls"}'}}
            ],
        },
        {"role": "tool", "tool_call_id": "x1", "name": "terminal", "content": '{"output":"a"}'},
        {"role": "assistant", "content": "done"},
    ]


def test_it_loads_with_the_real_library_also_where_the_first_call_comes_late(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    run.agent = rich
    run.run(["a", "b"])
    made = export(folder)
    loaded = load("json", folder / "trajectories.openai.jsonl", tmp_path / "cache")
    assert [row["messages"] for row in loaded] == [row["messages"] for row in made]
    assert [row["tools"] for row in loaded] == [row["tools"] for row in made]
    quiet = made[0] | {"messages": [{"role": "user", "content": "x" * 600}], "tools": []}
    with (tmp_path / "many.jsonl").open("w") as file:
        file.writelines([json.dumps(quiet) + "\n"] * 20_000)
        file.write(json.dumps(made[1] | {"reward": 0.5}) + "\n")
    many = load("json", tmp_path / "many.jsonl", tmp_path / "cache", FEATURES)
    assert (many[-1]["messages"], many[-1]["tools"]) == (made[1]["messages"], made[1]["tools"])
    assert (many[-1]["reward"], many[0]["reward"]) == (0.5, None)


# A template of the usual kind: tools in the system turn, thinking from its field, arguments that may be a string.
TEMPLATE = """\
{%- if tools %}<|system|>{% if messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}
{%- for tool in tools %}
{{ tool | tojson }}{% endfor %}
{% endif %}
{%- for message in messages if message.role != 'system' %}<|{{ message.role }}|>
{%- if message.reasoning_content is defined %}<think>{{ message.reasoning_content }}</think>{% endif %}
{{- message.content + '' }}
{%- for call in message.tool_calls or [] %}<call>{{ call.function.name }} {{ call.function.arguments
    if call.function.arguments is string else call.function.arguments | tojson }}</call>{% endfor %}
{% endfor %}"""


def test_a_chat_template_renders_every_turn_call_and_schema(run: Run, folder: Path) -> None:
    run.agent = rich
    run.run(["Do it."])
    (made,) = export(folder)
    environment = jinja2.Environment(undefined=jinja2.ChainableUndefined, autoescape=False)
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False}
    text = environment.from_string(TEMPLATE).render(messages=made["messages"], tools=made["tools"])
    assert text.startswith("<|system|>You are careful.\n{")
    assert text.count('"type": "function"') == len(TOOLS)
    assert f"<|assistant|><think>First </think> I look.</think>I look.<call>terminal {COMMAND}</call><call>" in text
    assert text.index(f"<|tool|>{RESULT}") < text.index("<|tool|>plain")
    assert text.endswith("<|assistant|><think>I know\nit.</think>The answer.\n")
