"""Causes that only Kubernetes knows: what becomes of them in annotation, status and conditions."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.unit.operator.builders import (
    LIMITS,
    NOW,
    PLAN_ID,
    PODS,
    RUNNER_IMAGE,
    actions_of,
    condition,
    job,
    message,
    observed,
    plan,
    pod,
    run,
)

from batchrun_api import names
from batchrun_api.conditions import Reason as ConditionReason
from batchrun_api.messages import Culprit, Signals
from batchrun_api.outcomes import Reason
from batchrun_api.own_container import OwnAmounts, OwnContainer
from batchrun_api.status import BatchRunStatus, Eviction, PlanStatus
from batchrun_operator.reconcile.causes import SANDBOX_ENDS
from batchrun_operator.reconcile.decide import decide
from batchrun_operator.reconcile.decision import Decision, EnsureJob, PatchPod
from batchrun_operator.reconcile.evictions import blamed
from batchrun_operator.reconcile.observed import Container, Observed, Pod, Running, Shards, Terminated, Waiting
from batchrun_operator.reconcile.timers import create_key, keys
from batchrun_operator.reconcile.views import read_pods

STATUSES = Path(__file__).parents[2] / "golden" / "pod_statuses"
OWN_LIMIT = 'Container sandbox-1 exceeded its local ephemeral storage limit "1Gi". '
POD_LIMIT = "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. "
NODE_DISK = (
    "The node was low on resource: ephemeral-storage. Threshold quantity: 2577718Ki, available: 2577000Ki. "
    "Container runner was using 20Ki, request is 0, has larger consumption of ephemeral-storage. "
    "Container sandbox-0 was using 900Mi, request is 1Mi, has larger consumption of ephemeral-storage. "
    "Container sandbox-2 was using 5Gi, request is 1Mi, has larger consumption of ephemeral-storage. "
)


def scene(*sizes: int, status: BatchRunStatus | None = None, spec: dict[str, Any] | None = None, **f: Any) -> Observed:
    """A plan that is being worked on."""
    begun = status or BatchRunStatus(plan=PlanStatus(id=PLAN_ID))
    made = observed(run(begun, **(spec or {})), shards=Shards(plan(*sizes)), **f)
    return replace(made, first_seen=dict.fromkeys(keys(made), NOW))


def think(seen: Observed, seconds: float = 0) -> Decision:
    return decide(seen, NOW + timedelta(seconds=seconds), PODS, LIMITS)


def signals(decision: Decision) -> Signals:
    (patch,) = actions_of(decision, PatchPod)
    return Signals.model_validate_json(patch.signals)


def with_sandbox(container: Container, **fields: Any) -> Observed:
    return scene(1, jobs=(job(),), pods=(pod(sandboxes=(container,), **fields),))


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (Terminated(137, "OOMKilled"), Reason.OOM_KILLED),
        (Terminated(137, "Error"), Reason.SANDBOX_LOST),
        (Terminated(2, "Error"), Reason.SANDBOX_LOST),
        # cgroup v1: a killed command marks a container whose helper ended by its own fault.
        (Terminated(2, "OOMKilled"), Reason.SANDBOX_LOST),
    ],
)
@pytest.mark.parametrize("restarted", [True, False])
def test_a_sandbox_that_died_is_told_with_reason_and_numbers_and_becomes_a_condition(
    end: Terminated, reason: Reason, restarted: bool
) -> None:
    died = (
        Container("sandbox-0", "x", Running(), last=end, restarts=1) if restarted else Container("sandbox-0", "x", end)
    )
    decision = think(with_sandbox(died))

    told = signals(decision).sandboxes[0]
    assert told.reason is reason
    assert f"exit code {end.exit_code}" in told.message
    assert ("memory limit 1Gi" in told.message) == (reason is Reason.OOM_KILLED)
    assert condition(decision, "Disrupted") == ("True", reason.value)
    assert message(decision, "Disrupted") == f"batch 0, sandbox-0: {told.message}"


@pytest.mark.parametrize("code", sorted(SANDBOX_ENDS))
def test_a_helper_that_ended_as_it_should_is_no_disruption_even_where_a_command_was_killed(code: int) -> None:
    decision = think(with_sandbox(Container("sandbox-0", "x", Terminated(code, "OOMKilled"))))
    assert actions_of(decision, PatchPod) == []
    assert condition(decision, "Disrupted") is None


CANNOT_BE_MADE = (
    Container("sandbox-0", "x", Waiting("CreateContainerError", "unable to find user bob")),
    Container("sandbox-0", "x", Waiting("CreateContainerConfigError", "image will run as root")),
    Container("sandbox-0", "x", Waiting("RunContainerError", "not a directory")),
    Container(
        "sandbox-0", "x", Waiting("CrashLoopBackOff"), last=Terminated(128, "StartError", "no device"), restarts=2
    ),
    Container("sandbox-0", "x", Terminated(128, "StartError", "no device"), restarts=1),
)


@pytest.mark.parametrize("broken", CANNOT_BE_MADE)
def test_a_sandbox_that_cannot_be_made_has_its_time_and_then_gives_way_with_the_kubelets_words(
    broken: Container,
) -> None:
    seen = with_sandbox(broken)
    early = think(seen, LIMITS.create_seconds - 1)
    assert actions_of(early, PatchPod) == []
    assert early.again_after_seconds == pytest.approx(1)

    late = think(seen, LIMITS.create_seconds)
    told = signals(late).sandboxes[0]
    assert (told.reason, told.hopeless) == (Reason.CREATE_CONTAINER_ERROR, False)
    words = broken.state.message if isinstance(broken.state, Waiting) and broken.state.message else "no device"
    assert told.message == f"x: {words}"
    assert actions_of(late, PatchPod)[0].images == (("sandbox-0", RUNNER_IMAGE),)
    assert condition(late, "Disrupted") == ("True", "CreateContainerError")


def test_the_time_of_a_sandbox_that_cannot_be_made_is_no_longer_than_that_of_a_pull() -> None:
    broken = CANNOT_BE_MADE[0]
    seen = scene(1, spec={"sandbox": {"imagePullTimeoutSeconds": 3}}, jobs=(job(),), pods=(pod(sandboxes=(broken,)),))
    assert actions_of(think(seen, 3), PatchPod)


def test_a_sandbox_that_fails_in_the_runners_image_too_is_hopeless_and_keeps_its_first_words() -> None:
    first = think(with_sandbox(CANNOT_BE_MADE[0]), LIMITS.create_seconds)
    (patch,) = actions_of(first, PatchPod)
    still = Container("sandbox-0", RUNNER_IMAGE, Waiting("CreateContainerError", "no such device"))
    again = with_sandbox(still, signals=patch.signals)

    assert actions_of(think(again, LIMITS.create_seconds - 1), PatchPod) == [], "the new image has its time as well"
    decision = think(again, LIMITS.create_seconds)
    told = signals(decision).sandboxes[0]
    assert (told.reason, told.hopeless, told.message) == (
        Reason.CREATE_CONTAINER_ERROR, True, "x: unable to find user bob"
    )  # fmt: skip
    assert actions_of(decision, PatchPod)[0].images == ()
    over = with_sandbox(still, signals=actions_of(decision, PatchPod)[0].signals)
    assert actions_of(think(over, LIMITS.create_seconds), PatchPod) == [], "told once"


def test_a_running_container_is_not_judged_by_the_start_that_failed_before() -> None:
    came = Container("sandbox-0", "x", Running(), last=Terminated(128, "StartError", "busy"), restarts=1)
    assert create_key(pod(), came) not in keys(with_sandbox(came))


def test_the_limit_that_is_named_is_that_of_the_rows_own_container() -> None:
    mine = plan(2)
    (batch,) = mine.batches
    own = OwnContainer(limits=OwnAmounts(memory="2Gi"))
    mine = mine.model_copy(update={"containers": [own], "batches": [batch.model_copy(update={"containers": [-1, 0]})]})
    killed = [Container(f"sandbox-{index}", "x", Terminated(137, "OOMKilled")) for index in (0, 1)]
    seen = replace(scene(2, jobs=(job(),), pods=(pod(sandboxes=tuple(killed)),)), shards=Shards(mine))

    told = signals(think(seen)).sandboxes

    assert "memory limit 1Gi" in told[0].message
    assert "memory limit 2Gi" in told[1].message


def test_a_killed_runner_is_told_of_to_the_next_one_in_its_place() -> None:
    killed = Container("runner", RUNNER_IMAGE, Running(), last=Terminated(137, "OOMKilled"), restarts=1)
    decision = think(scene(1, jobs=(job(),), pods=(pod(runner=killed),)))
    assert signals(decision).last_loss == "the runner container ended: OOMKilled, exit code 137, memory limit 1Gi"


def test_a_runner_that_is_killed_again_and_again_is_a_condition_with_the_next_step() -> None:
    killed = Container("runner", RUNNER_IMAGE, Running(), last=Terminated(137, "OOMKilled"), restarts=2)
    decision = think(scene(1, jobs=(job(),), pods=(pod(runner=killed),)))
    assert condition(decision, "Progressing") == ("False", "RunnerLost")
    assert "OOMKilled, exit code 137, memory limit 1Gi" in message(decision, "Progressing")
    assert "lower promptsPerPod" in message(decision, "Progressing")


# ---- evictions ----


@pytest.mark.parametrize(
    ("words", "sandboxes", "found"),
    [
        (OWN_LIMIT, 3, (1, Reason.DISK_FULL)),
        (OWN_LIMIT, 1, None),  # none of this pod
        (POD_LIMIT, 1, (0, Reason.DISK_FULL)),
        (POD_LIMIT, 3, None),
        (NODE_DISK, 3, (2, Reason.EVICTED)),
        (NODE_DISK.replace("5Gi", "100Mi"), 3, (0, Reason.EVICTED)),
        ('Usage of EmptyDir volume "shm-1" exceeds the limit "64Mi". ', 3, (1, Reason.DISK_FULL)),
        ('Container runner exceeded its local ephemeral storage limit "1Gi". ', 3, None),
        ("The node was low on resource: pids. Threshold quantity: 1, available: 0. ", 3, None),
        ("Container sandbox-1 was using 5Zi, request is 0. ", 3, (1, Reason.EVICTED)),
        ("", 3, None),
    ],
)
def test_c10_the_kubelets_words_name_the_culprit(words: str, sandboxes: int, found: tuple[int, Reason] | None) -> None:
    assert blamed(words, sandboxes) == found


def evicted_pod(words: str, *, attempt: int = 1, sandboxes: int = 3, **fields: Any) -> Pod:
    names_ = tuple(Container(f"sandbox-{index}", "x", Terminated(137, "Error")) for index in range(sandboxes))
    ended = {"phase": "Failed", "end": "Evicted"} | fields
    return pod(attempt=attempt, runner=Container("runner", RUNNER_IMAGE, Terminated(137)), sandboxes=names_,
               eviction=words, **ended)  # fmt: skip


def status_of(*evictions: Eviction, lost: int = 0, **fields: Any) -> BatchRunStatus:
    attempts = {"0": lost} if lost else {}
    return BatchRunStatus(plan=PlanStatus(id=PLAN_ID, attempts=attempts, evictions=list(evictions), **fields))


def disk_full(attempts: int, sandbox: int = 1, batch: int = 0) -> Eviction:
    return Eviction(batch=batch, sandbox=sandbox, attempts=attempts, reason="DiskFull", message=OWN_LIMIT.strip())


def plan_status(decision: Decision) -> PlanStatus:
    assert decision.status.plan is not None
    return decision.status.plan


def test_an_eviction_is_counted_for_its_culprit_and_is_a_condition() -> None:
    decision = think(scene(3, jobs=(job(),), pods=(evicted_pod(OWN_LIMIT.strip()),)))
    assert plan_status(decision).evictions == [disk_full(1)]
    assert plan_status(decision).attempts == {"0": 1}
    assert condition(decision, "Disrupted") == ("True", "DiskFull")
    assert 'sandbox-1 exceeded its local ephemeral storage limit "1Gi"' in message(decision, "Disrupted")

    again = think(
        scene(3, status=status_of(disk_full(1), lost=1), jobs=(job(attempt=2),),
              pods=(evicted_pod(OWN_LIMIT.strip(), attempt=2),))
    )  # fmt: skip
    assert plan_status(again).evictions == [disk_full(2)]


def test_an_evicted_runner_that_had_time_to_stop_is_still_evicted() -> None:
    """The kubelet gives it a second; its exit code 4 may be there before the pod has the phase Failed."""
    stopped = evicted_pod(OWN_LIMIT.strip(), phase="Running", end="")
    stopped = replace(stopped, containers=(Container("runner", RUNNER_IMAGE, Terminated(4)), *stopped.containers[1:]))
    decision = think(scene(3, jobs=(job(),), pods=(stopped,)))
    assert plan_status(decision).evictions == [disk_full(1)]


def test_a_pod_that_is_being_evicted_tells_nothing_about_its_sandboxes() -> None:
    dying = evicted_pod(OWN_LIMIT, phase="Running", end="")
    dying = replace(dying, containers=(Container("runner", RUNNER_IMAGE, Running()), *dying.containers[1:]))
    assert actions_of(think(scene(3, jobs=(job(),), pods=(dying,))), PatchPod) == []


@pytest.mark.parametrize(
    ("words", "reason"), [(POD_LIMIT, "DiskFull"), ("The node was low on resource: pids. ", "Evicted")]
)
def test_an_eviction_without_a_culprit_is_a_lost_attempt_with_the_words(words: str, reason: str) -> None:
    decision = think(scene(3, jobs=(job(),), pods=(evicted_pod(words.strip()),)))
    assert plan_status(decision).evictions == []
    assert plan_status(decision).last_losses == {"0": f"evicted: {words.strip()}"}
    assert condition(decision, "Disrupted") == ("True", reason)


def test_a_lost_pod_is_a_condition() -> None:
    decision = think(scene(1, jobs=(job(),), pods=(pod(phase="Failed", end="NodeLost"),)))
    assert condition(decision, "Disrupted") == ("True", "RunnerLost")
    assert message(decision, "Disrupted") == "batch 0, attempt 1 was lost: NodeLost"


def test_the_next_attempts_runner_knows_the_culprits_of_its_own_batch_from_its_beginning() -> None:
    status = status_of(disk_full(2), disk_full(1, 0, batch=7), lost=2, last_losses={"0": "evicted", "7": "else"})
    (action,) = actions_of(think(scene(3, status=status)), EnsureJob)
    template = action.manifest["spec"]["template"]["metadata"]
    told = Signals.model_validate_json(template["annotations"][names.ANNOTATION_SIGNALS])
    words = f"its pod was evicted twice: {OWN_LIMIT.strip()}"
    assert told == Signals(
        culprits={1: Culprit(attempts=2, reason=Reason.DISK_FULL, message=words)}, last_loss="evicted"
    )


def test_evictions_with_a_culprit_do_not_use_up_the_batchs_attempts_and_those_without_do() -> None:
    lost = LIMITS.max_attempts - 1
    full = evicted_pod(OWN_LIMIT, attempt=lost + 1)
    named = status_of(disk_full(2, 0), disk_full(1, 2), lost=lost)
    decision = think(scene(3, status=named, jobs=(job(attempt=lost + 1),), pods=(full,)))
    assert condition(decision, "Failed") is None

    unnamed = think(scene(3, status=status_of(lost=lost), jobs=(job(attempt=lost + 1),),
                          pods=(replace(full, eviction=POD_LIMIT),)))  # fmt: skip
    assert condition(unnamed, "Failed") == ("True", "TooManyAttempts")


def test_a_sandbox_that_is_blamed_for_ever_ends_the_run_all_the_same() -> None:
    lost = LIMITS.max_attempts + 1
    decision = think(
        scene(3, status=status_of(disk_full(lost), lost=lost), jobs=(job(attempt=lost + 1),),
              pods=(evicted_pod(OWN_LIMIT, attempt=lost + 1),))
    )  # fmt: skip
    assert condition(decision, "Failed") == ("True", "TooManyAttempts")


def test_what_is_kept_of_losses_is_bounded_and_goes_with_its_batch() -> None:
    many = [disk_full(1, 0, batch=number) for number in range(1, 101)]
    words = {str(number): "lost" for number in range(1, 101)}
    decision = think(
        scene(3, status=status_of(*many, last_losses=words), jobs=(job(),), pods=(evicted_pod(OWN_LIMIT),))
    )
    assert len(plan_status(decision).evictions) == len(plan_status(decision).last_losses) == 100
    assert plan_status(decision).evictions[-1].batch == 0

    done = pod(runner=Container("runner", RUNNER_IMAGE, Terminated(0, "Completed", '{"c":1}')))
    known = status_of(disk_full(1), disk_full(1, batch=1), last_losses={"0": "a", "1": "b"})
    kept = plan_status(think(scene(1, 1, status=known, jobs=(job(),), pods=(done,))))
    assert kept.evictions == [disk_full(1, batch=1)]
    assert kept.last_losses == {"1": "b"}


def test_another_plan_begins_without_the_disruptions_of_the_one_before() -> None:
    disrupted = think(scene(3, jobs=(job(),), pods=(evicted_pod(OWN_LIMIT),))).status
    old = disrupted.model_copy(update={"plan": PlanStatus(id="another")})
    assert condition(think(scene(3, status=old)), "Disrupted") is None


# ---- statuses as real kubelets wrote them ----


def recorded() -> list[tuple[str, dict[str, Any]]]:
    return [(path.stem, json.loads(path.read_text())) for path in sorted(STATUSES.glob("*.json"))]


@pytest.mark.parametrize(("name", "case"), recorded(), ids=[name for name, _ in recorded()])
def test_a_recorded_status_says_what_befell_the_pod(name: str, case: dict[str, Any]) -> None:
    labels = {
        names.LABEL_ROLE: "batch", names.LABEL_BATCH: "0", names.LABEL_ATTEMPT: "1", names.LABEL_PLAN: PLAN_ID
    }  # fmt: skip
    images = {item["name"]: item["image"] for item in case["status"]["containerStatuses"]}
    raw = {
        "metadata": {"name": "p", "uid": "u", "resourceVersion": "1", "labels": labels},
        "spec": {"containers": [{"name": name, "image": image} for name, image in images.items()]},
        "status": case["status"],
    }
    (found,) = read_pods([raw])
    seen = scene(len(images) - 1, jobs=(job(),), pods=(found,))
    decision = think(seen, LIMITS.create_seconds)
    wanted = case["expected"]

    assert condition(decision, "Disrupted") == ("True", wanted["disrupted"])
    assert ConditionReason(wanted["disrupted"])
    for words in wanted["words"]:
        assert words in message(decision, "Disrupted")
    if "sandbox" in wanted:
        patches = actions_of(decision, PatchPod)
        if patches:
            assert signals(decision).sandboxes[wanted["sandbox"]].reason == wanted["reason"]
        else:
            (eviction,) = plan_status(decision).evictions
            assert (eviction.sandbox, eviction.reason) == (wanted["sandbox"], wanted["reason"])
