"""Every flag of the reference becomes its field, in a file that validates; no key is ever shown."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from batchrun_runner.documents import load_run
from batchrun_runner.translate.command import run_translate
from batchrun_runner.translate.words import PARAMETERS, NotTranslated, given_values

BASE = ("--dataset_file=data/prompts.jsonl", "--batch_size=10", "--run_name=my_first_run")
KEY = "sk-or-v1-0123456789abcdef"


def translated(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[dict[str, Any], str]:
    """(spec, text) of a translation that is right."""
    assert run_translate([*BASE, *words]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return yaml.safe_load(captured.out)["spec"], captured.out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run_translate(words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err.strip()


def at(spec: Any, path: str) -> Any:
    for name in path.split("."):
        spec = spec[name]
    return spec


FLAGS: list[tuple[list[str], str, Any]] = [
    (["--dataset_file=/abs/a b.jsonl"], "dataset.uri", "file:///abs/a%20b.jsonl"),
    (["--dataset_file=s3://bucket/a.jsonl"], "dataset.uri", "s3://bucket/a.jsonl"),
    (["--batch_size=20"], "batchSize", 20),
    (["--run_name=123"], "runName", "123"),
    (["--distribution=terminal_only"], "distribution", "terminal_only"),
    (["--model=openai/gpt-4o"], "model.name", "openai/gpt-4o"),
    (["--base_url=http://localhost:8000/v1"], "model.baseURL", "http://localhost:8000/v1"),
    (["--max_turns=15"], "agent.maxTurns", 15),
    (["--num_workers=8"], "numWorkers", 8),
    (["--resume"], "resumePolicy", "Continue"),
    (["--verbose"], "logging.level", "debug"),
    (["--max_samples=5"], "maxSamples", 5),
    (["--max_tokens=128000"], "model.maxTokens", 128000),
    (["--providers_allowed=anthropic,openai"], "model.openRouter.providers.allowed", ["anthropic", "openai"]),
    (["--providers_ignored=together"], "model.openRouter.providers.ignored", ["together"]),
    (["--providers_order=['a', 'b']"], "model.openRouter.providers.order", ["a", "b"]),
    (["--provider_sort=price"], "model.openRouter.providers.sort", "price"),
    (["--reasoning_effort=xhigh"], "model.reasoning.effort", "xhigh"),
    (["--reasoning_disabled"], "model.reasoning.effort", "none"),
    (["--reasoning_disabled", "--reasoning_effort=high"], "model.reasoning.effort", "none"),
    (["--reasoning_effort=none"], "filters.requireReasoning", False),
    (["--ephemeral_system_prompt", "Be: kind\n  # always é"], "agent.ephemeralSystemPrompt", "Be: kind\n  # always é"),
    (["--log_prefix_chars=20"], "logging.prefixChars", 20),
]


@pytest.mark.parametrize(("words", "path", "value"), FLAGS, ids=[" ".join(flag[0])[:40] for flag in FLAGS])
def test_each_flag_becomes_its_field_and_the_file_validates(
    words: list[str], path: str, value: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec, text = translated(capsys, *words)
    assert at(spec, path) == value
    (tmp_path / "run.yaml").write_text(text)
    run = load_run(tmp_path / "run.yaml", for_cluster=False).run
    assert at(run.to_wire()["spec"], path) == value


def test_all_flags_of_the_reference_are_covered() -> None:
    tested = {word[2:].split("=")[0] for words, _, _ in FLAGS for word in words if word.startswith("--")}
    assert tested | {"api_key", "prefill_messages_file", "list_distributions"} == set(PARAMETERS)


def test_defaults_are_those_of_the_reference(capsys: pytest.CaptureFixture[str]) -> None:
    spec, text = translated(capsys)
    assert spec == {
        "runName": "my_first_run",
        "dataset": {"uri": "file://data/prompts.jsonl"},
        "batchSize": 10,
        "resumePolicy": "Continue",
        "distribution": "default",
        "model": {"name": "anthropic/claude-sonnet-4.6"},
        "tools": {"onUnavailable": "Drop"},
    }
    assert yaml.safe_load(text)["metadata"] == {"name": "my-first-run"}
    assert "# toolsets whose needs are not met are left out: web (needs tools.web), vision" in text
    assert "# the reference starts over without --resume" in text


def test_a_distribution_that_works_drops_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    spec, text = translated(capsys, "--distribution=terminal_only")
    assert "tools" not in spec
    assert "left out" not in text


@pytest.mark.parametrize(
    ("words", "variable"),
    [
        ([f"--api_key={KEY}"], "OPENROUTER_API_KEY"),
        (["--api-key", KEY, "--base_url=http://localhost/v1"], "OPENAI_API_KEY"),
        (["-a", KEY], "OPENROUTER_API_KEY"),
    ],
)
def test_a_key_is_never_shown_and_its_place_is_named(
    words: list[str], variable: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, text = translated(capsys, *words)
    assert KEY not in text
    assert f"export {variable}=" in text
    assert "apiKeySecretRef: {name: model-api-key, key: api-key}" in text


def test_no_mistake_shows_a_key_either(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        [f"--apikey={KEY}"],
        ["--apikey", KEY],
        [*BASE, f"--base_url=http://x/v1?key={KEY}", f"--api_key={KEY}"],
        [*BASE, "--max_turns", KEY],
        [*BASE, "--verbose", KEY],
        [*BASE, "--reasoning_effort", KEY],
        [*BASE, *[KEY] * 30],
    ):
        assert KEY not in refused(capsys, *words)


def test_a_base_url_that_is_none_is_refused_by_its_flag_beside_a_key_too(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--dataset_file=a", "--batch_size=1", "--run_name=a", "--base_url=http://[", "--api_key=abc"]
    assert "--base_url: is no web address" in refused(capsys, *words)


def test_prefill_messages_are_read_from_their_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "prefill.json"
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    file.write_text(json.dumps(messages))
    spec, text = translated(capsys, f"--prefill_messages_file={file}")
    assert spec["agent"]["prefillMessages"] == messages
    assert "# as they are now in prefill.json" in text
    file.write_text("{}")
    assert "is no JSON list of messages" in refused(capsys, *BASE, f"--prefill_messages_file={file}")
    assert "cannot be read" in refused(capsys, *BASE, f"--prefill_messages_file={tmp_path}/none")


def test_more_than_we_take_is_the_most_we_take_with_a_comment(capsys: pytest.CaptureFixture[str]) -> None:
    spec, text = translated(capsys, "--batch_size=500", "--max_samples=0")
    assert spec["batchSize"] == 100
    assert "# --batch_size=500: 100 is the most here" in text
    assert "maxSamples" not in spec


REFUSED: list[tuple[list[str], str]] = [
    ([], "the reference needs --dataset_file, --batch_size, --run_name"),
    (["--dataset_file=a", "--batch_size=1"], "the reference needs --run_name"),
    ([*BASE, "--model_name=x", "--zzz"], "the reference has no --model_name (did you mean --model?), --zzz"),
    ([*BASE, "--batch_size=ten"], "--batch_size: must be a whole number from 1"),
    ([*BASE, "--batch_size=0"], "--batch_size: must be a whole number from 1"),
    ([*BASE, "--distribution=everything"], "--distribution: there is no distribution 'everything'"),
    ([*BASE, "--distribution=minimal"], "--distribution: none of its toolsets works: web (needs tools.web)"),
    ([*BASE, "--reasoning_effort=ultra"], "--reasoning_effort: Input should be 'none'"),
    ([*BASE, "--provider_sort=speed"], "--provider_sort: Input should be 'price'"),
    ([*BASE, "--run_name=a/b"], "--run_name: String should match pattern"),
    ([*BASE, "--resume", "maybe"], "--resume: is True or False"),
    (["'unclosed --a"], "the command line cannot be taken apart"),
]


@pytest.mark.parametrize(("words", "says"), REFUSED, ids=[case[1][:40] for case in REFUSED])
def test_what_cannot_be_run_is_refused_by_its_flag(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert says in refused(capsys, *words)


READINGS: list[tuple[list[str], dict[str, str]]] = [
    (["--max_turns", "3"], {"max_turns": "3"}),
    (["--max-turns=3"], {"max_turns": "3"}),
    (["--resume", "--verbose"], {"resume": "True", "verbose": "True"}),
    (["--noresume", "--no_verbose"], {"resume": "False", "verbose": "False"}),
    (["--resume=False"], {"resume": "False"}),
    (["--num_workers", "2", "--num_workers", "3"], {"num_workers": "3"}),
    (["--max_tokens=None"], {}),
    (["--run_name='it is'"], {"run_name": "it is"}),
    (["--run_name=a=b"], {"run_name": "a=b"}),
    (["-v", "-n=4"], {"verbose": "True", "num_workers": "4"}),
    (["data.jsonl", "10", "mine", "--model=m"],
     {"dataset_file": "data.jsonl", "batch_size": "10", "run_name": "mine", "model": "m"}),
    (["python", "batch_runner.py", "--model=m"], {"model": "m"}),
    (["OPENROUTER_API_KEY=x", "uv", "run", "./src/batch_runner.py", "--model", "m"], {"model": "m"}),
    (["python batch_runner.py --run_name='a b' --resume"], {"run_name": "a b", "resume": "True"}),
]  # fmt: skip


@pytest.mark.parametrize(("words", "values"), READINGS, ids=[" ".join(reading[0])[:40] for reading in READINGS])
def test_words_are_read_as_the_reference_reads_them(words: list[str], values: dict[str, str]) -> None:
    assert given_values(words) == values


def test_an_ambiguous_letter_is_no_flag() -> None:
    with pytest.raises(NotTranslated, match="has no -m"):
        given_values(["-m", "x"])


def test_the_list_of_distributions_has_a_command_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_translate(["--list_distributions"]) == 0
    assert capsys.readouterr().out == "use: batchrun distributions\n"
