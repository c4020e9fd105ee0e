"""What batches say of their model server on their logs, and what becomes of it in the status."""

from datetime import timedelta
from typing import Any

import pytest
from tests.unit.operator.builders import (
    LIMITS,
    NOW,
    PLAN_ID,
    PODS,
    UID,
    actions_of,
    condition,
    ended_runner,
    job,
    message,
    nowhere,
    observed,
    plan,
    pod,
    raw_spec,
    run,
)
from tests.unit.operator.fake_kube import FakeKube, Json

from batchrun_api import names
from batchrun_api.hints import MARK, ModelHint
from batchrun_api.messages import BatchMessage
from batchrun_api.status import BatchRunStatus, PlanStatus
from batchrun_operator.gather import gather
from batchrun_operator.kube import KubeError
from batchrun_operator.memory import RunMemory
from batchrun_operator.reconcile.decide import decide
from batchrun_operator.reconcile.decision import Decision, DeleteJob
from batchrun_operator.reconcile.observed import Shards

LIMITED = ModelHint(reason="RateLimited", message="HTTP 429: slow down")
DOWN = ModelHint(reason="ModelUnavailable", message="ConnectError: refused")
ANSWERS = ModelHint()
RAW: Json = {"metadata": {"name": "demo", "namespace": "ns", "uid": UID, "generation": 1}, "spec": raw_spec()}


def think(status: BatchRunStatus | None = None, *, spec: dict[str, Any] | None = None, **fields: Any) -> Decision:
    """Two batches at work."""
    begun = status or BatchRunStatus(plan=PlanStatus(id=PLAN_ID))
    known: dict[str, Any] = {
        "shards": Shards(plan(2, 2)),
        "jobs": (job(batch=0), job(batch=1)),
        "pods": (pod(batch=0), pod(batch=1)),
    }
    return decide(observed(run(begun, **(spec or {})), **(known | fields)), NOW, PODS, LIMITS)


def name(batch: int) -> str:
    return pod(batch=batch).name


# ---- conditions ----


def test_a_run_whose_model_answers_has_no_such_condition() -> None:
    decision = think(model_hints={name(0): ANSWERS})
    assert condition(decision, "RateLimited") is None
    assert condition(decision, "Progressing") == ("True", "BatchesRunning")


def test_a_rate_limit_is_a_condition_while_it_lasts_with_the_servers_words() -> None:
    limited = think(model_hints={name(0): ANSWERS, name(1): LIMITED})
    assert condition(limited, "RateLimited") == ("True", "RateLimited")
    assert "batch 1" in message(limited, "RateLimited")
    assert "HTTP 429: slow down" in message(limited, "RateLimited")
    assert condition(limited, "Progressing") == ("True", "BatchesRunning")
    assert [(event.type, event.reason) for event in limited.events if "limits the rate" in event.message] == [
        ("Warning", "RateLimited")
    ]

    over = think(limited.status, model_hints={name(0): ANSWERS, name(1): ANSWERS})
    assert condition(over, "RateLimited") == ("False", "ModelAnswers")


def test_the_end_of_a_run_ends_its_rate_limit() -> None:
    limited = think(model_hints={name(0): LIMITED})
    failed = think(
        limited.status, pods=(pod(batch=0, runner=ended_runner(3, BatchMessage(reason="ModelNotFound").encode())),)
    )
    assert condition(failed, "Failed") == ("True", "ModelNotFound")
    assert condition(failed, "RateLimited") == ("False", "ModelAnswers")


def test_a_model_server_that_is_down_is_what_the_run_waits_for() -> None:
    decision = think(model_hints={name(0): DOWN})
    assert condition(decision, "Progressing") == ("False", "ModelUnavailable")
    said = message(decision, "Progressing")
    assert "https://openrouter.ai/api/v1 is down (ConnectError: refused)" in said
    assert "600 s" in said
    assert condition(decision, "RateLimited") is None


def test_while_batches_work_their_logs_are_looked_at_again() -> None:
    assert think().again_after_seconds == LIMITS.hints_seconds


# ---- what must be mended ----


@pytest.mark.parametrize(
    ("reason", "spec", "says"),
    [
        (
            "InvalidCredentials",
            {"model": {"apiKeySecretRef": {"name": "router", "key": "api-key"}}},
            ["the key api-key of the Secret router", "model.apiKeySecretRef"],
        ),
        ("InvalidCredentials", {}, ["wants a key", "model.apiKeySecretRef"]),
        ("ModelNotFound", {"model": {"name": "a/b", "baseURL": "http://m/v1"}}, ["http://m/v1", "the model a/b"]),
    ],
)
def test_a_refused_key_or_model_ends_the_run_at_once_and_says_what_to_mend_and_how_to_go_on(
    reason: str, spec: dict[str, Any], says: list[str]
) -> None:
    refused = pod(batch=0, runner=ended_runner(3, BatchMessage(reason=reason).encode()))
    decision = think(spec=spec, pods=(refused, pod(batch=1)))
    assert condition(decision, "Failed") == ("True", reason)
    said = message(decision, "Failed")
    assert [words for words in [*says, "batchrun.dev/retry=", "annotate batchrun demo"] if words not in said] == []
    assert len(actions_of(decision, DeleteJob)) == 2


# ---- looking at logs ----


async def batch_pod(number: int) -> Json:
    current = (await gather(FakeKube(), RAW, RunMemory(), NOW, LIMITS, nowhere)).run.plan_id
    labels = {
        names.LABEL_RUN_UID: UID,
        names.LABEL_ROLE: "batch",
        names.LABEL_PLAN: current,
        names.LABEL_BATCH: str(number),
        names.LABEL_ATTEMPT: "1",
    }
    return {
        "metadata": {"name": f"b{number}", "namespace": "ns", "labels": labels},
        "spec": {"containers": [{"name": "runner"}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": "runner", "state": {"running": {}}}]},
    }


async def kube_with(*logs: str) -> FakeKube:
    kube = FakeKube()
    for number, log in enumerate(logs):
        kube.put("pods", await batch_pod(number))
        kube.logs[f"b{number}"] = log
    return kube


async def hints(kube: FakeKube, memory: RunMemory, seconds: float = 0.0) -> dict[str, str]:
    seen = await gather(kube, RAW, memory, NOW + timedelta(seconds=seconds), LIMITS, nowhere)
    return {pod_name: hint.reason for pod_name, hint in seen.model_hints.items()}


async def test_the_newest_hint_of_a_log_counts_whatever_stands_beside_it() -> None:
    noise = '{"event": "prompt ended", "prompt": "\\nbatchrun-model: {\\"reason\\": \\"RateLimited\\"}"}'
    log = "\n".join([LIMITED.encode(), noise, ANSWERS.encode(), DOWN.encode(), noise, MARK + '{"reason": "Rat'])
    assert await hints(await kube_with(log, "nothing"), RunMemory()) == {"b0": "ModelUnavailable"}


async def test_a_few_logs_are_read_at_a_look_and_none_between_looks() -> None:
    kube, memory = await kube_with(*[LIMITED.encode()] * 9), RunMemory()
    for seconds in (0.0, 1.0, LIMITS.hints_seconds - 1):
        assert len(await hints(kube, memory, seconds)) == 3
    assert kube.calls.count("get pods/log") == 3


async def test_every_pod_has_its_turn_and_those_that_were_held_up_are_looked_at_again() -> None:
    kube, memory = await kube_with(*[ANSWERS.encode()] * 5, LIMITED.encode()), RunMemory()
    seen: list[dict[str, str]] = [await hints(kube, memory, 20.0 * look) for look in range(4)]
    assert {pod_name for found in seen for pod_name in found} == {f"b{number}" for number in range(6)}
    first = next(number for number, found in enumerate(seen) if "b5" in found)
    assert all(found.get("b5") == "RateLimited" for found in seen[first:])
    kube.logs["b5"] += "\n" + ANSWERS.encode()
    assert set((await hints(kube, memory, 100)).values()) == {""}


async def test_a_log_that_cannot_be_read_says_nothing_and_stops_nothing() -> None:
    kube = await kube_with(LIMITED.encode())

    async def broken(*_: Any, **__: Any) -> str:
        raise KubeError(500, "InternalError", "no kubelet")

    kube.read_log = broken  # type: ignore[method-assign]
    assert await hints(kube, RunMemory()) == {}
