"""Many prompts over a server with faults, and servers that nobody can work with: whole runs of `batchrun local`."""

from __future__ import annotations

import json
import logging
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.harness.evidence import assert_every_prompt_once, assert_figures_add_up
from tests.contract.model.storm import ride_out
from tests.contract.model.support import OK, Stage, call, calls, command

from batchrun_runner.agent.loop import Agent
from batchrun_runner.records import PromptResult, PromptRow

PROMPTS = 200
PASSING: list[dict[str, Any]] = [
    {"status": 429, "headers": {"Retry-After": "0.05"}},
    {"status": 429},
    {"status": 408},
    {"status": 409},
    {"status": 500},
    {"status": 503, "body": "<html>"},
    {"status": 529, "body": {"error": {"type": "overloaded_error", "message": "Overloaded"}}},
    {"body": {"error": {"code": 502, "message": "Provider returned error"}}},
    {"body": {"choices": []}},
    {"body": ""},
    {"fault": "cut"},
    {"content": None},
]
LASTING: list[tuple[Any, str]] = [
    ({"status": 400}, "InvalidRequest"),
    ({"status": 400, "body": {"error": {"message": "x", "code": "context_length_exceeded"}}}, "ContextLengthExceeded"),
    ({"status": 400, "body": {"error": {"message": "x", "code": "content_filter"}}}, "ContentFiltered"),
    ({"content": None, "finish_reason": "content_filter"}, "ContentFiltered"),
    ({"content": None}, "EmptyReply"),
    ({"content": "half", "finish_reason": "length"}, "TruncatedReply"),
    ({"content": "<tool_call>"}, "UnparsedToolCall"),
    (calls(call("{broken")), "InvalidToolCalls"),
    ({"status": 503}, "ProviderError"),
    ({"fault": "hang"}, "Timeout"),
]
MANY: dict[str, Any] = {"batchSize": 50, "numWorkers": 4, "promptsPerPod": 2}


def rows_of(prompts: dict[str, list[Any]]) -> list[dict[str, str]]:
    return [
        {"id": name, "prompt": f"Prompt {name}.\n```demo\n{json.dumps(turns)}\n```"} for name, turns in prompts.items()
    ]


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("stream", [False, True])
def test_of_200_prompts_over_a_server_with_30_percent_passing_faults_all_are_done_and_nothing_is_done_twice(
    stage: Stage, tmp_path: Path, stream: bool
) -> None:
    chance = random.Random(7)
    prompts: dict[str, list[Any]] = {}
    for number in range(PROMPTS):
        turns = []
        for good in (command(f"echo one >> {tmp_path}/{number}"), command(f"echo two >> {tmp_path}/{number}"), OK):
            faults = []
            while chance.random() < 0.3:
                faults.append(chance.choice([*PASSING, {"content": "half", "stream_fault": "silent"}][: 12 + stream]))
            turns.append([*faults, good])
        prompts[f"p{number}"] = turns
    rows = rows_of(prompts)
    played = stage.run(rows, model={"stream": stream}, **MANY)

    assert_every_prompt_once(stage.place.rows(), rows)
    assert_figures_add_up(played.statistics, stage.place.rows())
    completed = [name for name in prompts if played.verdict(name) == ("completed", "")]
    assert len(completed) >= 0.97 * PROMPTS
    assert stage.model.requests <= 5 * 3 * PROMPTS
    assert stage.model.requests > 1.2 * 3 * PROMPTS, "there were no faults"
    for name in completed:
        assert (tmp_path / name.removeprefix("p")).read_text() == "one\ntwo\n", "a command ran twice"
        assert [turn["from"] for turn in played.rows[name]["conversations"]] == [
            "human", "gpt", "tool", "gpt", "tool", "gpt"
        ]  # fmt: skip
    assert "Traceback" not in played.out + played.err


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_of_200_prompts_exactly_the_20_percent_with_lasting_faults_fail_each_for_its_own_reason(stage: Stage) -> None:
    # Eight prompts break the server: three of them alone at work would be an outage by the rule, and be waited for.
    stage.quicker(outage_callers=9)
    chance = random.Random(8)
    bad = dict(zip(chance.sample(range(PROMPTS), PROMPTS // 5), LASTING * (PROMPTS // 5), strict=False))
    prompts = {f"p{number}": [command("echo x"), bad[number][0] if number in bad else OK] for number in range(PROMPTS)}
    rows = rows_of(prompts)
    played = stage.run(rows, model={"timeoutSeconds": 2}, **MANY)

    expected = {
        f"p{number}": ("failed", bad[number][1]) if number in bad else ("completed", "") for number in range(PROMPTS)
    }
    assert {name: played.verdict(name) for name in prompts} == expected
    assert_every_prompt_once(stage.place.rows(), rows)
    assert_figures_add_up(played.statistics, stage.place.rows())
    assert played.statistics["reasons"] == Counter(reason for _, reason in bad.values())
    assert played.code == 1


@pytest.mark.parametrize("retry_after", [1.0, None])
async def test_a_storm_of_429_over_four_workers_fails_nothing_and_the_pace_recovers(retry_after: float | None) -> None:
    """Seconds of real time, and a pace that no busy machine slows; `make bench` has two minutes (docs/model.md)."""
    storm = await ride_out(storm_seconds=5, retry_after=retry_after, workers=4, in_flight=4, delay_ms=400)
    assert storm.failed == 0
    assert storm.rate_in_storm <= 8, "four workers, one call a second each, and a little more before they settle"
    assert storm.recovery_seconds <= 10


def test_a_fault_of_ours_over_one_prompt_fails_that_one_and_is_told_without_quoting(stage: Stage) -> None:
    run = Agent.run

    async def faulty(self: Agent, row: PromptRow, *others: Any) -> PromptResult:
        if row.id == "odd":
            raise RecursionError("deep: SECRET")
        return await run(self, row, *others)

    stage.monkeypatch.setattr(Agent, "run", faulty)
    played = stage.play({"odd": [OK], "fine": [command("echo one"), OK]}, whole=False)

    assert played.code == 1
    assert played.verdict("odd") == ("failed", "Internal")
    assert "RecursionError in test_whole_runs.py:" in played.rows["odd"]["message"]
    assert "SECRET" not in json.dumps(played.rows) + played.out + played.err
    assert {played.verdict(name) for name in ("fine", "good-1", "good-2")} == {("completed", "")}
    assert_figures_add_up(played.statistics, stage.place.rows())
    assert "Traceback" not in played.out + played.err


# ---- The whole server ----------------------------------------------------------------------------------------------


def test_a_dead_server_is_waited_for_by_one_call_and_its_prompts_fail_and_run_again(
    stage: Stage, unused_tcp_port: int
) -> None:
    rows = [{"id": f"p{number}", "prompt": f"Prompt {number}."} for number in range(12)]
    nowhere = {"baseURL": f"http://127.0.0.1:{unused_tcp_port}/v1", "outageTimeoutSeconds": 2}
    stage.quicker(longest_wait_seconds=0.2)
    start = time.monotonic()
    played = stage.run(rows, model=nowhere, batchSize=6, numWorkers=2)

    assert {played.verdict(name) for name in played.rows} == {("failed", "ProviderError")}
    assert "no answer for 2 s" in played.rows["p0"]["message"]
    assert "Traceback" not in played.out + played.err
    assert played.code == 1
    assert time.monotonic() - start > 2

    again = stage.run(rows, batchSize=6, numWorkers=2)
    assert {again.verdict(name) for name in again.rows} == {("completed", "")}
    assert again.code == 0


def test_a_wait_for_the_model_is_told(stage: Stage) -> None:
    stage.quicker(hint_cap_seconds=6.0)
    played = stage.play({"held-up": [[{"status": 429, "headers": {"Retry-After": "3600"}}, OK]]})
    assert played.verdict("held-up") == ("completed", "")
    assert "waiting: the server limits the rate (HTTP 429: scripted error 429); next try in 6 s" in played.out


@pytest.mark.parametrize(
    ("status", "reason", "says"),
    [
        (401, "InvalidCredentials", ["does not take the key in OPENAI_API_KEY"]),
        (403, "InvalidCredentials", ["does not take the key in OPENAI_API_KEY"]),
        (404, "ModelNotFound", ["spec.model.name (demo/scripted)", "spec.model.baseURL (http://127.0.0.1:"]),
    ],
)
def test_a_refused_key_or_model_stops_the_run_at_once_with_exit_code_2_and_what_to_mend(
    stage: Stage, status: int, reason: str, says: list[str]
) -> None:
    stage.environ = {"OPENAI_API_KEY": "sk-a-key-of-somebody"}
    rows = [{"id": f"p{number}", "prompt": f"Prompt {number}."} for number in range(40)]
    stage.model.play([{"match": "", "turns": [{"status": status}]}])
    played = stage.run(rows, batchSize=10, numWorkers=4)

    assert played.code == 2
    [line] = played.err.splitlines()
    assert line.startswith(f"{reason}: HTTP {status}")
    assert [words for words in says if words not in line] == []
    assert "run the same command again" in line
    assert "sk-a-key" not in played.out + played.err
    assert stage.model.requests <= 8, "as many as were under way"
    assert played.statistics["outcomes"]["not_run"] == len(rows)
    assert played.statistics["outcomes"]["failed"] == 0

    stage.model.play([])
    again = stage.run(rows, batchSize=10, numWorkers=4)
    assert again.code == 0
    assert again.statistics["outcomes"]["completed"] == len(rows)


def test_words_of_a_server_cannot_steer_the_terminal(stage: Stage) -> None:
    stage.model.play([{"match": "", "turns": [{"status": 404, "body": {"error": {"message": "\x1b[2J\r\x9bgone"}}}]}])
    played = stage.run([{"id": "p", "prompt": "Prompt."}])
    [line] = played.err.splitlines()
    assert line.startswith("ModelNotFound: HTTP 404:")
    assert "gone" in line
    assert line.isprintable()


def test_words_of_a_prompt_that_the_server_quotes_fail_that_prompt_and_no_other(stage: Stage) -> None:
    words = "In Django the model Foo does not exist; insufficient_quota; the prompt is too long."
    fault = {
        "type": "extra_forbidden",
        "loc": ["body", "seed"],
        "msg": "Extra inputs are not permitted",
        "input": words,
    }
    refusals: dict[str, dict[str, Any]] = {
        "pydantic": {"status": 422, "body": {"detail": [fault]}},
        "echo": {"status": 400, "body": {"error": {"message": f"bad request: {words}", "code": 400}}},
    }
    played = stage.play({name: [refusal] for name, refusal in refusals.items()})

    assert {played.verdict(name) for name in refusals} == {("failed", "InvalidRequest")}


def test_a_server_that_wants_a_key_says_which_variable_to_set(stage: Stage) -> None:
    played = stage.run(rows_of({"p": [{"status": 401}], "q": [OK]}))
    assert played.code == 2
    assert "wants a key: set OPENAI_API_KEY" in played.err


# ---- Limits of a prompt --------------------------------------------------------------------------------------------


def test_a_conversation_that_a_limit_cuts_is_kept_as_truncated(stage: Stage) -> None:
    spent = {"usage": {"prompt_tokens": 400, "completion_tokens": 200}}
    prompts: dict[str, Any] = {
        "tokens": [{**command("echo one"), **spent}, {**command("echo two"), **spent}, OK],
        "turns": [command(f"echo {number}") for number in range(9)],
        "time": [command("echo before"), command("sleep 30")],
    }
    played = stage.run(
        rows_of(prompts),
        agent={"maxTurns": 3, "maxTotalTokens": 1000, "timeoutSeconds": 3},
        promptsPerPod=3,
        batchSize=3,
    )

    assert played.verdict("tokens") == ("truncated", "TokenLimit")
    assert played.verdict("turns") == ("truncated", "MaxTurns")
    assert played.verdict("time") == ("truncated", "TimeLimit")
    assert "two" in played.said("tokens", "tool")[1]
    assert "before" in played.said("time", "tool")[0]
    assert played.code == 0
    assert {played.rows[name]["completed"] for name in prompts} == {False}


def test_time_that_the_server_took_is_no_result(stage: Stage) -> None:
    """The first has an answer of the server and is then held up: it must run again, not count as cut by its length."""
    stage.quicker(hint_cap_seconds=300.0)
    held_up = {"status": 429, "headers": {"Retry-After": "100"}}
    played = stage.run(
        rows_of({"p": [command("echo x"), [held_up, OK]]}), agent={"timeoutSeconds": 2}, batchSize=1, promptsPerPod=1
    )
    assert played.verdict("p") == ("failed", "RateLimited")
    assert "not done after 2 s" in played.rows["p"]["message"]
    assert "x" in played.said("p", "tool")[0]


# ---- Secrets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["debug", "error"])
def test_neither_key_nor_ephemeral_prompt_nor_headers_are_written_anywhere(stage: Stage, level: str) -> None:
    """The server echoes what it was sent in its errors, as some do."""
    stage.caplog.set_level(logging.DEBUG)
    key, whisper, example = (
        "sk-0123456789abcdef-secret",
        "You whisper: quokka-4711-sunrise.",
        "Example: numbat-0815-dusk.",
    )
    stage.environ = {"OPENAI_API_KEY": key}
    echo = {"error": {"message": f"bad request: Bearer {key}; system: {whisper} {example}"}}
    prompts: dict[str, Any] = {
        "fine": [command("echo x"), OK],
        "lasting": [{"status": 400, "body": echo}],
        "passing": [[{"status": 500, "body": echo}, OK]],
        "limited": [[{"status": 429, "body": echo, "headers": {"Retry-After": "6"}}, OK]],
        "for-ever": [{"status": 500, "body": echo}],
    }
    stage.quicker(hint_cap_seconds=6.0)
    # The script may not stand in the prompt: it would be stored. The server plays it for prompts by their words.
    names = [{"id": name, "prompt": f"Prompt {name}."} for name in prompts]
    stage.model.play([{"match": f"Prompt {name}", "turns": turns} for name, turns in prompts.items()])
    played = stage.run(
        names,
        agent={
            "ephemeralSystemPrompt": whisper,
            "systemPrompt": "Be brief.",
            "prefillMessages": [{"role": "user", "content": example}, {"role": "assistant", "content": "Yes."}],
        },
        logging={"level": level, "prefixChars": 10000},
    )

    assert [name for name in prompts if played.verdict(name)[0] == "completed"] == ["fine", "passing", "limited"]
    first = json.dumps(stage.model.bodies[0])
    assert whisper in first
    assert example in first
    assert stage.model.headers[0]["authorization"] == f"Bearer {key}"
    assert "waiting: the server limits the rate" in played.out
    written = {name: body.decode("utf-8", "replace") for name, body in stage.place.objects().items()}
    written |= {"stdout": played.out, "stderr": played.err}
    written["logs"] = "\n".join(f"{record.getMessage()} {record.__dict__}" for record in stage.caplog.records)
    parts = [key, key[3:20], "quokka-4711", "numbat-0815", "Bearer", "authorization", "x-stainless"]
    found = [(name, part) for name, text in written.items() for part in parts if part.lower() in text.lower()]
    assert found == []
    assert {"trajectories.jsonl", "statistics.json", "checkpoint.json"} <= set(written)
