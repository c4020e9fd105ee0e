"""A model server that limits the rate, is down, or refuses the run: what the BatchRun says, and how it goes on."""

from __future__ import annotations

import json
import secrets
from typing import Any

import pytest

from tests.cluster.harness.evidence import assert_every_prompt_once, assert_figures_add_up
from tests.cluster.harness.kubectl import wait_for
from tests.cluster.harness.runs import Run, Runs

pytestmark = pytest.mark.timeout(300)


def prompt_of_turns(text: str, turns: list[Any]) -> dict[str, str]:
    """A prompt with its own script; a turn that is a list holds what successive attempts get."""
    return {"prompt": f"{text}\n```demo\n{json.dumps(turns)}\n```\n"}


ANSWER = {"reasoning": "done", "content": "done"}


def held_up(text: str, seconds: int, times: int) -> dict[str, str]:
    """A prompt whose first request is refused so often."""
    refusal = {
        "status": 429,
        "headers": {"retry-after": str(seconds)},
        "body": {"error": {"message": "slow down, please", "code": 429}},
    }
    return prompt_of_turns(text, [[*[refusal] * times, ANSWER]])


def assert_all_completed(run: Run, rows: list[dict[str, str]]) -> None:
    """As if nothing had been."""
    merged = run.rows()
    assert_every_prompt_once(merged, rows)
    assert [row["outcome"] for row in merged] == ["completed"] * len(rows)
    assert_figures_add_up(json.loads(run.runs.bucket.read(f"{run.prefix}/statistics.json")), merged)


def test_a_rate_limit_is_a_condition_while_it_lasts_and_fails_no_prompt(runs: Runs) -> None:
    rows = [held_up("Held up.", seconds=15, times=5), *({"prompt": f"Prompt {number}."} for number in range(3))]
    run = runs.start("limited", rows, batchSize=2, numWorkers=2, logging={"level": "error"})

    limited = wait_for("the condition is there", lambda: run.condition("RateLimited"), 90)
    assert "slow down, please" in limited["message"]
    assert run.condition("Progressing")

    run.wait_complete(180)
    assert_all_completed(run, rows)
    ended = next(item for item in run.status["conditions"] if item["type"] == "RateLimited")
    assert (ended["status"], ended["reason"]) == ("False", "ModelAnswers")


def test_a_model_server_that_is_not_there_is_said_and_its_prompts_fail_and_run_again(runs: Runs) -> None:
    rows = [{"prompt": f"Prompt {number}."} for number in range(4)]
    nowhere = runs.model.base_url.rsplit(":", 1)[0] + ":9/v1"
    run = runs.start("nowhere", rows, batchSize=2, numWorkers=2, model={"baseURL": nowhere, "outageTimeoutSeconds": 40})

    def unavailable() -> dict[str, Any] | None:
        conditions = run.status.get("conditions", [])
        return next((item for item in conditions if item["reason"] == "ModelUnavailable"), None)

    said = wait_for("it is said", unavailable, 90)
    assert (said["type"], said["status"]) == ("Progressing", "False")
    assert nowhere in said["message"]

    assert run.wait_ended(180)["type"] == "Complete"
    assert run.status["summary"]["reasons"] == {"ProviderError": 4}

    run.document["spec"]["model"] = {"name": "demo/scripted", "baseURL": runs.model.base_url}
    runs.kubectl.apply(run.document)
    wait_for("it has begun again", lambda: not run.condition("Complete"), 60)
    run.wait_complete(120)
    assert_all_completed(run, rows)


@pytest.mark.parametrize(
    ("status", "reason", "says"),
    [
        (401, "InvalidCredentials", "the key api-key of the Secret model"),
        (404, "ModelNotFound", "model.name or model.baseURL"),
    ],
)
def test_a_refused_run_stops_at_once_and_goes_on_with_the_retry_annotation(
    runs: Runs, status: int, reason: str, says: str
) -> None:
    """The second request of the prompt is accepted: as if the Secret, or the server, had been mended meanwhile."""
    rows = [
        prompt_of_turns("Refused.", [[{"status": status}, ANSWER]]),
        *({"prompt": f"Prompt {number}."} for number in range(5)),
    ]
    runs.kubectl.run("create", "secret", "generic", "model", "--from-literal=api-key=sk-old")
    run = runs.start(
        "refused", rows, batchSize=3, numWorkers=1, model={"apiKeySecretRef": {"name": "model", "key": "api-key"}}
    )

    ended = run.wait_ended(90)
    assert (ended["type"], ended["reason"]) == ("Failed", reason)
    assert says in ended["message"]
    assert "batchrun.dev/retry=" in ended["message"]
    assert runs.model.requests == 1, "no other prompt was asked"

    runs.kubectl.run("delete", "secret", "model")
    runs.kubectl.run("create", "secret", "generic", "model", "--from-literal=api-key=sk-new")
    runs.kubectl.run("annotate", "batchrun", "refused", "batchrun.dev/retry=1", "--overwrite")
    wait_for("it has begun again", lambda: not run.condition("Failed"), 60)
    run.wait_complete(120)
    assert_all_completed(run, rows)
    assert runs.model.headers[-1]["authorization"] == "Bearer sk-new"


def test_a_server_that_echoes_what_it_was_sent_puts_no_secret_into_anything_that_is_kept(runs: Runs) -> None:
    """In its refusals and in the words of a rate limit, which reach a condition. The script is not in the prompts."""
    key, whisper = f"sk-{secrets.token_hex(12)}", f"You whisper {secrets.token_hex(12)}."
    literals = [f"--from-literal=api-key={key}", f"--from-literal=system={whisper}"]
    runs.kubectl.run("create", "secret", "generic", "model", *literals)
    echo = {"error": {"message": f"refused: Bearer {key}; system: {whisper}", "code": 429}}
    limited = {"status": 429, "body": echo, "headers": {"retry-after": "30"}}
    lasting = {"status": 400, "body": {"error": {"message": f"bad: {key} {whisper}"}}}
    runs.model.play(
        [{"match": "limited", "turns": [[limited, limited, ANSWER]]}, {"match": "lasting", "turns": [lasting]}]
    )
    rows = [{"prompt": "lasting"}, {"prompt": "limited"}]
    run = runs.start(
        "echoed",
        rows,
        model={"apiKeySecretRef": {"name": "model", "key": "api-key"}},
        agent={"ephemeralSystemPromptFrom": {"secretKeyRef": {"name": "model", "key": "system"}}},
        logging={"level": "debug", "prefixChars": 10000},
    )
    during = wait_for("the condition is there", lambda: run.condition("RateLimited"), 90)
    assert "withheld" in during["message"]
    status = run.wait_complete(150)

    assert (status["prompts"]["completed"], status["prompts"]["failed"]) == (1, 1)
    assert runs.model.headers[0]["authorization"] == f"Bearer {key}"
    assert whisper in json.dumps(runs.model.bodies[0])
    kubectl = runs.kubectl
    places = {name: runs.bucket.read(f"{run.prefix}/{name}").decode() for name in runs.bucket.etags(run.prefix)}
    for pod in run.pods():
        name = pod["metadata"]["name"]
        places[f"log of {name}"] = kubectl.run("logs", name, "--all-containers")
        places[f"pod {name}"] = json.dumps(pod["status"]) + json.dumps(pod["metadata"])
    places["operator's log"] = kubectl.within("batchrun-system").run("logs", "deploy/batchrun", "--since=5m")
    places["events"] = kubectl.run("get", "events", "-o", "json")
    places["run"] = json.dumps(run.get())
    places["config maps"] = kubectl.run("get", "configmaps", "-o", "json")
    assert "batchrun-model: " in "".join(places.values()), "no hint was given"
    assert [(place, word) for place, text in places.items() for word in (key, whisper) if word in text] == []
