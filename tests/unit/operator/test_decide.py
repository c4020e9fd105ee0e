"""What is decided from one observation."""

from dataclasses import replace
from datetime import timedelta
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
    ended_runner,
    job,
    message,
    observed,
    plan,
    pod,
    run,
)

from batchrun_api import names
from batchrun_api.messages import BatchMessage, MergeResult, Signals, StepMessage
from batchrun_api.outcomes import Reason
from batchrun_api.plan import plan_in_words
from batchrun_api.status import BatchRunStatus, Condition, PlanStatus, PromptCounts
from batchrun_operator.manifests.meta import Role
from batchrun_operator.reconcile.decide import decide
from batchrun_operator.reconcile.decision import (
    Decision,
    DeleteJob,
    EnsureConfigMap,
    EnsureJob,
    PatchPod,
    PruneConfigMaps,
)
from batchrun_operator.reconcile.observed import (
    Container,
    Observed,
    PlanLog,
    Refusal,
    Run,
    Running,
    Shards,
    Terminated,
    Waiting,
)
from batchrun_operator.reconcile.timers import ended_key, keys, podless_key, pull_key, stuck_key


def think(observed_: Observed, seconds_later: float = 0) -> Decision:
    return decide(observed_, NOW + timedelta(seconds=seconds_later), PODS, LIMITS)


def begun(**fields: object) -> BatchRunStatus:
    """The status of a run whose plan id is known."""
    return think(observed()).status.model_copy(update=fields)


def with_plan(*sizes: int, **fields: object) -> Observed:
    run_ = fields.pop("run_", run(begun()))
    assert isinstance(run_, Run)
    return observed(run_, shards=Shards(plan(*sizes)), **fields)


def job_names(decision: Decision) -> list[str]:
    return [action.manifest["metadata"]["name"] for action in actions_of(decision, EnsureJob)]


# ---- what is not known ----


@pytest.mark.parametrize("missing", ["jobs", "pods", "shards"])
def test_nothing_is_started_while_something_is_not_known(missing: str) -> None:
    decision = think(observed(**{missing: None}))
    assert decision.actions == ()


def test_a_run_that_is_being_deleted_is_left_alone() -> None:
    assert think(observed(replace(run(), leaving=True))).actions == ()


# ---- planning ----


def test_a_new_run_starts_a_plan_job_after_its_configuration() -> None:
    decision = think(observed())
    assert [type(action) for action in decision.actions] == [PruneConfigMaps, EnsureConfigMap, EnsureJob]
    assert condition(decision, "Progressing") == ("True", "Planning")
    assert decision.status.phase == "Planning"
    assert decision.status.start_time == "2026-01-02T03:04:05Z"
    assert decision.status.observed_generation == 1


def test_the_plan_of_the_log_is_stored_before_batches_start() -> None:
    done = pod(Role.PLAN, runner=ended_runner(0))
    noted = plan(2, 2, 2).model_copy(update={"notes": ["batch_0.jsonl is gone"]})
    decision = think(observed(run(begun()), jobs=(job(Role.PLAN),), pods=(done,), plan_log=PlanLog(1, noted)))
    kinds = [type(action) for action in decision.actions]
    assert kinds.index(EnsureConfigMap) < kinds.index(EnsureJob)
    assert condition(decision, "Planned") == ("True", "Planned")
    assert message(decision, "Planned") == "6 prompts: 0 done, 6 to run in 3 new batches; batch_0.jsonl is gone"
    assert decision.status.progress == "0/6"
    assert len(job_names(decision)) == 3


def test_a_broken_log_is_planned_again_as_the_next_attempt() -> None:
    done = pod(Role.PLAN, runner=ended_runner(0))
    log = PlanLog(1, None, "checksum does not match")
    decision = think(observed(run(begun()), jobs=(job(Role.PLAN),), pods=(done,), plan_log=log))
    assert decision.status.plan is not None
    assert decision.status.plan.attempts == {"plan": 1}
    assert condition(decision, "Planned") == ("False", "PlanBroken")
    assert actions_of(decision, DeleteJob) == [DeleteJob("plan-None-1", "job-plan-None-1")]


def test_a_plan_reads_the_same_on_the_cluster_and_on_one_machine() -> None:
    planned = plan(2, done=3, invalid=1, orphaned=2)
    decision = think(observed(run(begun()), shards=Shards(planned)))
    assert message(decision, "Planned") == plan_in_words(planned.counts, 1)
    assert message(decision, "Planned") == (
        "5 prompts: 3 done (3 completed), 2 to run in 1 new batch; 1 invalid row skipped (see rejected.jsonl); "
        "2 stored rows of prompts that are not in the data set"
    )


GONE = "s3://results/runs/demo/plans/abcdef0123/rows.jsonl is gone"


def test_a_batch_whose_plan_was_deleted_from_the_store_is_planned_again() -> None:
    words = BatchMessage(reason="PlanBroken", message=GONE).encode(1000)
    scene = with_plan(1, 1, jobs=(job(Role.PLAN), job()), pods=(pod(runner=ended_runner(3, words)),))
    decision = think(scene)
    assert condition(decision, "Failed") is None
    assert condition(decision, "Planned") == ("False", "PlanBroken")
    assert message(decision, "Planned").startswith(f"batch 0: {GONE}: planning again")
    assert len(actions_of(decision, DeleteJob)) == 2
    assert actions_of(decision, EnsureJob) == []
    # The next pass may still see the old plan and the pod that found it gone; neither counts a second time.
    again = think(replace(scene, run=run(decision.status)))
    assert again.status.plan is not None
    assert again.status.plan.attempts == {"plan": 1}
    assert message(again, "Planned") == message(decision, "Planned")
    cleared = think(observed(run(again.status)))
    assert [name[-2:] for name in job_names(cleared)] == ["-2"]


@pytest.mark.parametrize("words", ["", GONE])
def test_a_plan_that_is_deleted_again_and_again_ends_the_run_with_the_object_and_the_fix(words: str) -> None:
    told = BatchMessage(reason="PlanBroken", message=words).encode(1000)
    status = begun(plan=PlanStatus(id=PLAN_ID, attempts={"plan": LIMITS.max_attempts - 1}))
    decision = think(with_plan(1, run_=run(status), jobs=(job(),), pods=(pod(runner=ended_runner(3, told)),)))
    assert condition(decision, "Failed") == ("True", "PlanBroken")
    said = message(decision, "Failed")
    assert "s3://results/runs/demo/plans/" in said
    assert "find out what deletes objects" in said


def test_a_merge_whose_plan_was_deleted_from_the_store_is_planned_again() -> None:
    told = StepMessage(reason="PlanBroken", message="s3://results/order.jsonl is gone").encode()
    gone = pod(Role.MERGE, runner=ended_runner(3, told))
    decision = think(with_plan(run_=run(begun()), jobs=(job(Role.MERGE),), pods=(gone,)))
    assert condition(decision, "Planned") == ("False", "PlanBroken")
    assert decision.status.plan is not None
    assert decision.status.plan.attempts == {"plan": 1}


def test_a_plan_of_another_id_is_not_taken() -> None:
    done = pod(Role.PLAN, runner=ended_runner(0))
    other = plan(1).model_copy(update={"plan_id": "ffff"})
    decision = think(observed(run(begun()), jobs=(job(Role.PLAN),), pods=(done,), plan_log=PlanLog(1, other)))
    assert condition(decision, "Planned") == ("False", "PlanBroken")


def test_the_log_is_waited_for() -> None:
    done = pod(Role.PLAN, runner=ended_runner(0))
    decision = think(observed(run(begun()), jobs=(job(Role.PLAN),), pods=(done,)))
    assert decision.actions == ()


@pytest.mark.parametrize("code", [2, 3])
@pytest.mark.parametrize("role", [Role.PLAN, Role.MERGE])
def test_what_plan_and_merge_say_ends_the_run_with_their_reason(code: int, role: Role) -> None:
    words = StepMessage(reason="OutputInUse", message="s3://results/demo belongs to another run.").encode()
    bad = pod(role, runner=ended_runner(code, words))
    shards = Shards(plan() if role is Role.MERGE else None)
    decision = think(observed(run(begun()), jobs=(job(role),), pods=(bad,), shards=shards))
    assert condition(decision, "Failed") == ("True", "OutputInUse")
    assert "belongs to another run" in message(decision, "Failed")
    assert "batchrun.dev/retry" in message(decision, "Failed")
    assert condition(decision, "Progressing") == ("False", "OutputInUse")
    assert decision.status.completion_time == "2026-01-02T03:04:05Z"


def test_an_end_without_a_readable_message_still_has_a_reason() -> None:
    bad = pod(Role.PLAN, runner=ended_runner(3, "\x00 rubbish"))
    decision = think(observed(run(begun()), jobs=(job(Role.PLAN),), pods=(bad,)))
    assert condition(decision, "Failed") == ("True", "Internal")


# ---- specs that cannot be ----


def test_an_invalid_spec_ends_the_run_without_a_pod() -> None:
    invalid = replace(run(), spec=None, spec_error="distribution 'x' is not known")
    decision = think(observed(invalid))
    assert condition(decision, "Failed") == ("True", "InvalidSpec")
    assert decision.actions == ()


def test_a_repaired_spec_starts() -> None:
    broken = think(observed(replace(run(), spec=None, spec_error="x", plan_id="bad"))).status
    decision = think(observed(run(broken)))
    assert condition(decision, "Failed") is None
    assert len(job_names(decision)) == 1


def test_the_deadline_ends_the_run_and_its_jobs() -> None:
    run_ = run(begun(), activeDeadlineSeconds=60)
    early = think(with_plan(2, run_=run_, jobs=(job(),), pods=(pod(),)), 50)
    assert early.again_after_seconds == pytest.approx(10)
    late = think(with_plan(2, run_=run_, jobs=(job(),), pods=(pod(),)), 60)
    assert condition(late, "Failed") == ("True", "DeadlineExceeded")
    assert len(actions_of(late, DeleteJob)) == 1


# ---- batches ----


def test_only_as_many_batches_start_as_there_are_workers() -> None:
    decision = think(with_plan(1, 1, 1, run_=run(begun(), numWorkers=2)))
    assert [name[-4:] for name in job_names(decision)] == ["b0-1", "b1-1"]
    assert decision.status.batches.active == 2


def test_a_leaving_pod_keeps_its_place() -> None:
    status = begun(plan=PlanStatus(id=PLAN_ID, attempts={"0": 1}))
    leaving = replace(pod(), leaving=True)
    decision = think(with_plan(1, 1, 1, run_=run(status, numWorkers=2), pods=(leaving,)))
    assert [name[-4:] for name in job_names(decision)] == ["b1-1"]


def test_batches_that_lost_an_attempt_come_before_new_ones() -> None:
    status = begun(plan=PlanStatus(id=PLAN_ID, attempts={"2": 1}))
    decision = think(with_plan(1, 1, 1, run_=run(status, numWorkers=2)))
    assert [name[-4:] for name in job_names(decision)] == ["b2-2", "b0-1"]


def test_fewer_workers_stop_nothing() -> None:
    decision = think(
        with_plan(
            1,
            1,
            1,
            run_=run(begun(), numWorkers=1),
            jobs=(job(batch=0), job(batch=1)),
            pods=(pod(batch=0), pod(batch=1)),
        )
    )
    assert decision.actions == ()


def test_a_finished_batch_is_recorded_and_makes_room_in_the_same_pass() -> None:
    words = BatchMessage(completed=1, failed=1).encode()
    decision = think(
        with_plan(2, 2, run_=run(begun(), numWorkers=1), jobs=(job(),), pods=(pod(runner=ended_runner(0, words)),))
    )
    assert decision.status.plan is not None
    assert (decision.status.plan.recorded, decision.status.plan.completed, decision.status.plan.failed) == ("0", 1, 1)
    assert [name[-4:] for name in job_names(decision)] == ["b1-1"]
    assert decision.status.progress == "2/4"


def test_a_recorded_batch_needs_neither_job_nor_pod() -> None:
    status = begun(plan=PlanStatus(id=PLAN_ID, recorded="0", completed=2))
    decision = think(with_plan(2, 1, run_=run(status)))
    assert [name[-4:] for name in job_names(decision)] == ["b1-1"]


@pytest.mark.parametrize("words", ["", "rubbish", BatchMessage(completed=1, left=1).encode()])
def test_an_end_whose_message_does_not_say_done_is_asked_again(words: str) -> None:
    decision = think(with_plan(2, jobs=(job(),), pods=(pod(runner=ended_runner(0, words)),)))
    assert decision.status.plan is not None
    assert decision.status.plan.attempts == {"0": 1}
    assert decision.status.plan.recorded == ""


def test_a_blocked_batch_ends_the_run_with_its_cause() -> None:
    words = BatchMessage(reason="InvalidCredentials").encode()
    decision = think(
        with_plan(
            2, 2, jobs=(job(batch=0), job(batch=1)), pods=(pod(batch=0), pod(batch=1, runner=ended_runner(3, words)))
        )
    )
    assert condition(decision, "Failed") == ("True", "InvalidCredentials")
    assert len(actions_of(decision, DeleteJob)) == 2


def test_what_a_batch_says_of_the_store_is_not_taken_for_the_model_servers_words() -> None:
    said = "s3://results: InvalidAccessKeyId; correct the keys in credentialsSecretRef"
    words = BatchMessage(reason="InvalidCredentials", of_store=True, message=said).encode(500)
    decision = think(with_plan(2, jobs=(job(),), pods=(pod(runner=ended_runner(3, words)),)))
    assert condition(decision, "Failed") == ("True", "InvalidCredentials")
    assert message(decision, "Failed").startswith(f"batch 0: {said}. To try again")


def test_a_batch_that_leaves_no_words_points_to_no_log_that_is_deleted_with_it() -> None:
    decision = think(with_plan(2, jobs=(job(),), pods=(pod(runner=ended_runner(3, "")),)))
    assert "batch 0: its pod ended with exit code 3 and left no words" in message(decision, "Failed")


def test_too_many_lost_attempts_end_the_run() -> None:
    status = begun(plan=PlanStatus(id=PLAN_ID, attempts={"0": 5}))
    evicted = replace(pod(attempt=6), phase="Failed", end="Evicted")
    decision = think(with_plan(1, run_=run(status), jobs=(job(attempt=6),), pods=(evicted,)))
    assert condition(decision, "Failed") == ("True", "TooManyAttempts")
    assert "Evicted" in message(decision, "Failed")


def test_d02_sandboxes_that_end_with_a_signal_change_nothing_when_the_runner_is_done() -> None:
    words = BatchMessage(completed=2).encode()
    sandboxes = (Container("sandbox-0", state=Terminated(137)), Container("sandbox-1", state=Running()))
    done = pod(runner=ended_runner(0, words), sandboxes=sandboxes)
    decision = think(with_plan(2, jobs=(job(),), pods=(done,)))
    assert decision.status.plan is not None
    assert decision.status.plan.completed == 2
    assert actions_of(decision, PatchPod) == []


def test_a_pod_that_hangs_after_its_runner_is_removed_after_the_backstop() -> None:
    status = begun(plan=PlanStatus(id=PLAN_ID, recorded="0", completed=1))
    hanging = pod(runner=ended_runner(0, "{}"), sandboxes=(Container("sandbox-0", state=Running()),))
    scene = with_plan(1, 1, run_=run(status), jobs=(job(),), pods=(hanging,))
    assert actions_of(think(replace(scene, first_seen={ended_key(hanging): NOW})), DeleteJob) == []
    late = think(replace(scene, first_seen={ended_key(hanging): NOW}), LIMITS.backstop_seconds)
    assert actions_of(late, DeleteJob) == [DeleteJob("batch-0-1", "job-batch-0-1")]


# ---- suspending ----


def test_suspend_starts_nothing_and_stops_nothing() -> None:
    decision = think(with_plan(1, 1, run_=run(begun(), suspend=True), jobs=(job(),), pods=(pod(),)))
    assert decision.actions == ()
    assert condition(decision, "Suspended") == ("True", "Suspended")
    assert decision.status.phase == "Running"
    idle = think(with_plan(1, 1, run_=run(decision.status, suspend=True)))
    assert idle.status.phase == "Suspended"
    assert condition(idle, "Progressing") == ("False", "Suspended")


def test_resuming_is_shown_and_starts_batches() -> None:
    suspended = think(with_plan(1, run_=run(begun(), suspend=True))).status
    decision = think(with_plan(1, run_=run(suspended)))
    assert condition(decision, "Suspended") == ("False", "Resumed")
    assert len(job_names(decision)) == 1


@pytest.mark.parametrize("stage", ["plan", "merge"])
def test_a_suspended_run_starts_neither_plan_nor_merge(stage: str) -> None:
    shards = Shards(plan() if stage == "merge" else None)
    decision = think(observed(run(begun(), suspend=True), shards=shards))
    assert decision.actions == ()
    assert decision.status.phase == "Suspended"


def test_twenty_discards_in_a_row_suspend_the_run_steadily() -> None:
    status = begun(plan=PlanStatus(id=PLAN_ID, recorded="0", discarded=20))
    first = think(with_plan(20, 20, run_=run(status)))
    assert condition(first, "Suspended") == ("True", "AllDiscarded")
    assert job_names(first) == []
    second = think(with_plan(20, 20, run_=run(first.status)), 60)
    assert second.status == first.status
    assert second.events == ()


def test_one_kept_sample_lifts_the_suspension() -> None:
    status = begun(plan=PlanStatus(id=PLAN_ID, recorded="0", discarded=20))
    suspended = think(with_plan(20, 20, 20, run_=run(status))).status
    known = PlanStatus(id=PLAN_ID, recorded="0-1", discarded=39, completed=1)
    decision = think(with_plan(20, 20, 20, run_=run(suspended.model_copy(update={"plan": known}))))
    assert condition(decision, "Suspended") == ("False", "Resumed")
    assert len(job_names(decision)) == 1


# ---- progress ----


def sandbox(index: int, message_: str, code: int = 0) -> Container:
    return Container(f"sandbox-{index}", "x", Terminated(code, "Completed", message_))


def test_running_pods_count_prompt_by_prompt() -> None:
    live = pod(
        sandboxes=(sandbox(0, "completed"), sandbox(1, "failed/Timeout"), Container("sandbox-2", "x", Running()))
    )
    decision = think(with_plan(3, jobs=(job(),), pods=(live,)))
    assert decision.status.progress == "2/3"
    assert (decision.status.prompts.completed, decision.status.prompts.failed) == (1, 1)


@pytest.mark.parametrize(("text", "code"), [("completed", 137), ("hacked", 0), ("interrupted", 0), ("", 0)])
def test_messages_that_are_none_count_nothing(text: str, code: int) -> None:
    decision = think(with_plan(1, jobs=(job(),), pods=(pod(sandboxes=(sandbox(0, text, code),)),)))
    assert decision.status.progress == "0/1"


def test_progress_does_not_fall_when_a_pod_takes_its_messages_along() -> None:
    planned = think(with_plan(3)).status
    before = planned.model_copy(update={"prompts": PromptCounts(total=3, completed=2, not_run=1), "progress": "2/3"})
    decision = think(with_plan(3, run_=run(before), jobs=(job(),), pods=(pod(),)))
    assert decision.status.progress == "2/3"


# ---- images and other causes ----


def pulling(reason: str, image: str = "registry.invalid/none:1") -> Container:
    return Container("sandbox-0", image, Waiting(reason, "manifest unknown"))


def test_d01_a_malformed_image_name_gives_way_at_once() -> None:
    decision = think(with_plan(1, jobs=(job(),), pods=(pod(sandboxes=(pulling("InvalidImageName"),)),)))
    (patch,) = actions_of(decision, PatchPod)
    assert patch.images == (("sandbox-0", RUNNER_IMAGE),)
    assert patch.resource_version == "7"
    signal = Signals.model_validate_json(patch.signals).sandboxes[0]
    assert signal.reason is Reason.IMAGE_UNAVAILABLE
    assert "manifest unknown" in signal.message


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff"])
def test_d01_a_failing_pull_has_its_time(reason: str) -> None:
    waits = pod(sandboxes=(pulling(reason),))
    scene = with_plan(1, run_=run(begun(), sandbox={"imagePullTimeoutSeconds": 60}), jobs=(job(),), pods=(waits,))
    scene = replace(scene, first_seen={pull_key(waits, waits.containers[1]): NOW})
    early = think(scene, 59)
    assert actions_of(early, PatchPod) == []
    assert early.again_after_seconds == pytest.approx(1)
    assert len(actions_of(think(scene, 60), PatchPod)) == 1


def test_a_patched_container_is_not_patched_again() -> None:
    decision = think(with_plan(1, jobs=(job(),), pods=(pod(sandboxes=(pulling("InvalidImageName", RUNNER_IMAGE),)),)))
    assert actions_of(decision, PatchPod) == []


def test_a_sandbox_killed_for_memory_is_told_to_the_runner_once() -> None:
    killed = Container("sandbox-0", "x", Running(), last=Terminated(137, "OOMKilled"), restarts=1)
    scene = with_plan(1, jobs=(job(),), pods=(pod(sandboxes=(killed,)),))
    (patch,) = actions_of(think(scene), PatchPod)
    signal = Signals.model_validate_json(patch.signals).sandboxes[0]
    assert (signal.reason, patch.images) == (Reason.OOM_KILLED, ())
    assert signal.message == "OOMKilled, exit code 137, memory limit 1Gi"
    told = replace(scene, pods=(pod(sandboxes=(killed,), signals=patch.signals),))
    assert actions_of(think(told), PatchPod) == []


# ---- troubles that only Kubernetes knows ----


@pytest.mark.parametrize(
    ("container", "reason"),
    [
        (Waiting("CreateContainerConfigError", 'secret "model" not found'), "ContainerConfigError"),
        (Waiting("ErrImagePull", "denied"), "ImageUnavailable"),
        (Waiting("InvalidImageName", ""), "ImageUnavailable"),
    ],
)
@pytest.mark.parametrize("role", [Role.PLAN, Role.BATCH, Role.MERGE])
def test_a_runner_that_cannot_start_is_a_condition(container: Waiting, reason: str, role: Role) -> None:
    stuck = pod(role, runner=Container("runner", "img", container), phase="Pending")
    shards = {Role.PLAN: Shards(None), Role.BATCH: Shards(plan(1)), Role.MERGE: Shards(plan())}[role]
    decision = think(observed(run(begun()), jobs=(job(role),), pods=(stuck,), shards=shards))
    assert condition(decision, "Progressing") == ("False", reason)
    assert condition(decision, "Failed") is None


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("", "Internal"),
        (StepMessage(reason="StorageUnavailable", message="RequestTimeTooSkewed").encode(), "StorageUnavailable"),
    ],
)
def test_d13_a_runner_that_ends_again_and_again_is_a_condition_with_its_words(words: str, reason: str) -> None:
    crashing = Container("runner", "img", Waiting("CrashLoopBackOff"), last=Terminated(70, "Error", words), restarts=2)
    decision = think(observed(run(begun()), jobs=(job(Role.PLAN),), pods=(pod(Role.PLAN, runner=crashing),)))
    assert condition(decision, "Progressing") == ("False", reason)
    assert "exit code 70" in message(decision, "Progressing")
    once = replace(crashing, restarts=1)
    calm = think(observed(run(begun()), jobs=(job(Role.PLAN),), pods=(pod(Role.PLAN, runner=once),)))
    assert condition(calm, "Progressing") == ("True", "Planning")


def test_a_pod_whose_volume_is_missing_becomes_a_condition_after_a_moment() -> None:
    stuck = pod(Role.PLAN, runner=Container("runner", "img", Waiting("ContainerCreating")), phase="Pending")
    said = {stuck.name: Refusal("ContainerConfigError", 'configmap "prompts" not found')}
    scene = replace(
        observed(run(begun()), jobs=(job(Role.PLAN),), pods=(stuck,)), refusals=said, first_seen={stuck_key(stuck): NOW}
    )
    assert condition(think(scene), "Progressing") == ("True", "Planning")
    late = think(scene, LIMITS.trouble_seconds)
    assert condition(late, "Progressing") == ("False", "ContainerConfigError")
    assert 'configmap "prompts" not found. Make the missing' in message(late, "Progressing")


def test_a_refusal_by_the_store_does_not_blame_the_model_server() -> None:
    words = StepMessage(reason="InvalidCredentials", message="s3: correct the keys in credentialsSecretRef").encode()
    scene = observed(run(begun()), jobs=(job(Role.PLAN),), pods=(pod(Role.PLAN, runner=ended_runner(3, words)),))
    said = message(think(scene), "Failed")
    assert "correct the keys in credentialsSecretRef. To try again unchanged:" in said
    assert "wants a key" not in said


def test_an_unschedulable_pod_becomes_a_condition_after_a_moment() -> None:
    stuck = pod(runner=Container("runner"), phase="Pending", unschedulable="0/1 nodes: Insufficient cpu.")
    scene = with_plan(1, jobs=(job(),), pods=(stuck,))
    scene = replace(scene, first_seen={stuck_key(stuck): NOW})
    assert condition(think(scene), "Progressing") == ("True", "BatchesRunning")
    late = think(scene, LIMITS.trouble_seconds)
    assert condition(late, "Progressing") == ("False", "Unschedulable")
    assert "Insufficient cpu. Add nodes" in message(late, "Progressing")


def test_d05_a_job_without_a_pod_shows_the_quota_and_clears_when_it_frees_up() -> None:
    words = 'pods "x" is forbidden: exceeded quota: small'
    scene = with_plan(1, jobs=(job(),), refusals={job().name: Refusal("QuotaExceeded", words)})
    stuck = think(replace(scene, first_seen={podless_key(job()): NOW}), LIMITS.trouble_seconds)
    assert condition(stuck, "Progressing") == ("False", "QuotaExceeded")
    assert words in message(stuck, "Progressing")
    free = think(with_plan(1, run_=run(stuck.status), jobs=(job(),), pods=(pod(),)))
    assert condition(free, "Progressing") == ("True", "BatchesRunning")


def test_a_refused_job_is_a_condition_and_not_counted_as_running() -> None:
    scene = with_plan(1)
    (name,) = job_names(think(scene))
    decision = think(replace(scene, refusals={name: Refusal("QuotaExceeded", "exceeded quota: jobs")}))
    assert condition(decision, "Progressing") == ("False", "QuotaExceeded")
    assert decision.status.batches.active == 0
    assert len(job_names(decision)) == 1


def test_a_stuck_batch_beside_a_working_one_is_told_and_still_progress() -> None:
    stuck = pod(batch=1, runner=Container("runner", "img", Waiting("CreateContainerConfigError", "x")))
    decision = think(with_plan(1, 1, jobs=(job(batch=0), job(batch=1)), pods=(pod(batch=0), stuck)))
    assert condition(decision, "Progressing") == ("True", "ContainerConfigError")


# ---- the end ----


def merged(**figures: Any) -> Observed:
    base = {"total": 4, "completed": 4, "truncated": 0, "discarded": 0, "failed": 0, "not_run": 0} | figures
    words = StepMessage(result=MergeResult.model_validate(base).model_dump()).encode()
    done = pod(Role.MERGE, runner=ended_runner(0, words))
    status = begun(plan=PlanStatus(id=PLAN_ID, recorded="0", completed=4))
    return with_plan(4, run_=run(status), jobs=(job(Role.MERGE),), pods=(done,))


def test_the_merge_starts_when_every_batch_is_recorded() -> None:
    status = begun(plan=PlanStatus(id=PLAN_ID, recorded="0", completed=1))
    decision = think(with_plan(1, run_=run(status)))
    assert "-merge-" in job_names(decision)[0]
    assert condition(decision, "Progressing") == ("True", "Merging")


def test_the_end_says_what_came_out_where_it_lies_and_how_to_resume() -> None:
    decision = think(merged())
    assert condition(decision, "Complete") == ("True", "AllPromptsDone")
    text = message(decision, "Complete")
    assert text.startswith("4 prompts: 4 completed. Results are in s3://results/runs/demo/. ")
    assert "kubectl replace --force" in text
    assert "batchrun.dev/retry=$(date +%s) --overwrite" in text
    assert decision.status.phase == "Complete"
    assert [event.reason for event in decision.events] == ["AllPromptsDone"]


def test_failed_prompts_do_not_fail_the_run_by_default() -> None:
    assert condition(think(merged(completed=1, failed=3)), "Complete") == ("True", "SomePromptsFailed")


def test_a_prompt_without_an_end_is_no_success_and_the_damaged_file_is_named() -> None:
    decision = think(merged(completed=3, not_run=1, damaged={"batch_7.jsonl": 1}))
    assert condition(decision, "Failed") == ("True", "PromptsNotRun")
    assert "1 not run" in message(decision, "Failed")
    assert "batch_7.jsonl (1 line)" in message(decision, "Failed")
    assert "batchrun.dev/retry=" in message(decision, "Failed")


def test_the_failure_policy_fails_the_run() -> None:
    scene = merged(completed=3, failed=1)
    strict = run(scene.run.status, failurePolicy={"maxFailedPercent": 24})
    assert condition(think(replace(scene, run=strict)), "Failed") == ("True", "TooManyPromptsFailed")
    lenient = run(scene.run.status, failurePolicy={"maxFailedPercent": 25})
    assert condition(think(replace(scene, run=lenient)), "Complete") == ("True", "SomePromptsFailed")


REWARD: dict[str, Any] = {
    "count": 4,
    "mean": 0.5,
    "pass_at": [{"k": 1, "value": 0.5, "prompts": 2}, {"k": 2, "value": 0.8333333, "prompts": 1}],
}


def test_a_failed_sample_is_told_by_its_number() -> None:
    note = {"prompt_index": 3, "sample": 2, "reason": "Timeout"}
    (failure,) = think(merged(completed=3, failed=1, failures=[note])).status.failures
    assert (failure.prompt_index, failure.sample) == (3, 2)


def test_what_verifiers_said_stands_in_status_as_strings_and_in_the_last_message() -> None:
    scene = merged(reward=REWARD)
    decision = think(replace(scene, run=run(scene.run.status, samplesPerPrompt=2)))
    assert message(decision, "Complete").startswith(
        "4 samples of 2 prompts: 4 completed. pass@1 0.500 over 2 prompts, pass@2 0.833 over 1 prompt. Results are in "
    )
    assert decision.status.summary is not None
    assert decision.status.summary.to_wire()["reward"] == {
        "count": 4,
        "mean": "0.5",
        "passAt": [{"k": 1, "value": "0.5", "prompts": 2}, {"k": 2, "value": "0.833333", "prompts": 1}],
    }


@pytest.mark.parametrize("mean", [1e300, -1e-300, float("inf")])
def test_any_mean_of_rewards_fits_into_status(mean: float) -> None:
    status = think(merged(reward=REWARD | {"mean": mean})).status
    assert BatchRunStatus.model_validate(status.to_wire()) == status


def test_without_verifiers_status_and_message_say_nothing_of_rewards() -> None:
    decision = think(merged())
    assert decision.status.summary is not None
    assert "reward" not in decision.status.summary.to_wire()
    assert "pass@" not in message(decision, "Complete")


def test_a_plan_of_samples_says_of_how_many_prompts() -> None:
    planned = observed(run(begun()), shards=Shards(plan(3, 3, samples_per_prompt=3)))
    assert message(think(planned), "Planned") == "6 samples of 2 prompts: 0 done, 6 to run in 2 new batches"


def test_a_merge_without_a_readable_result_is_tried_again() -> None:
    done = pod(Role.MERGE, runner=ended_runner(0, "{}"))
    decision = think(with_plan(run_=run(begun()), jobs=(job(Role.MERGE),), pods=(done,)))
    assert decision.status.plan is not None
    assert decision.status.plan.attempts == {"merge": 1}


def finished(**spec: object) -> Run:
    return run(think(merged()).status, **spec)


def test_a_finished_run_is_settled_and_silent() -> None:
    decision = think(with_plan(4, run_=finished()), 500)
    assert (decision.actions, decision.events, decision.settled) == ((), (), True)


def test_ttl_removes_the_jobs_when_it_is_over_and_not_before() -> None:
    scene = with_plan(4, run_=finished(ttlSecondsAfterFinished=100), jobs=(job(finished=True),))
    early = think(scene, 40)
    assert (early.actions, early.settled) == ((), False)
    assert early.again_after_seconds == pytest.approx(60)
    assert len(actions_of(think(scene, 100), DeleteJob)) == 1


def test_a_pod_that_hangs_after_the_end_is_removed() -> None:
    scene = with_plan(4, run_=finished(), jobs=(job(),))
    assert think(scene, 1).actions == ()
    assert len(actions_of(think(scene, LIMITS.backstop_seconds), DeleteJob)) == 1


def test_live_fields_of_a_finished_run_change_nothing() -> None:
    changed = replace(finished(numWorkers=9), generation=2)
    decision = think(with_plan(4, run_=changed), 5)
    assert condition(decision, "Complete") == ("True", "AllPromptsDone")
    assert decision.status.observed_generation == 2


def test_a_changed_plan_id_reopens_a_finished_run_and_its_figures_stay_until_the_new_plan() -> None:
    decision = think(observed(replace(finished(), plan_id="0000000000")), 1000)
    assert condition(decision, "Complete") is None
    assert decision.status.completion_time is None
    assert decision.status.start_time == "2026-01-02T03:20:45Z"
    before = finished().status
    assert decision.status.progress == before.progress == "4/4"
    assert (decision.status.prompts, decision.status.summary) == (before.prompts, before.summary)
    planned = think(observed(replace(finished(), status=decision.status), shards=Shards(plan(2, done=2))), 1001)
    assert planned.status.progress == "2/4"
    assert planned.status.summary is None


def test_jobs_of_another_plan_go_first() -> None:
    old = replace(job(), plan_id="old")
    decision = think(observed(run(begun()), jobs=(old,), pods=(replace(pod(), plan_id="old"),)))
    assert decision.actions == (DeleteJob(old.name, old.uid),)
    assert condition(decision, "Progressing") == ("True", "Superseded")


# ---- events and steadiness ----


def test_a_pass_that_sees_nothing_new_says_nothing_new() -> None:
    scene = with_plan(2, jobs=(job(),), pods=(pod(),))
    first = think(scene)
    again = think(replace(scene, run=run(first.status)), 60)
    assert again.status == first.status
    assert again.events == ()


def test_troubles_are_warnings() -> None:
    stuck = pod(runner=Container("runner", "img", Waiting("CreateContainerConfigError", "x")))
    events = think(with_plan(1, jobs=(job(),), pods=(stuck,))).events
    assert [(event.type, event.reason) for event in events if event.reason == "ContainerConfigError"] == [
        ("Warning", "ContainerConfigError")
    ]


def test_d07_long_words_stay_small_in_status() -> None:
    words = "x" * 100_000
    stuck = pod(runner=Container("runner", "img", Waiting("CreateContainerConfigError", words)))
    decision = think(with_plan(1, jobs=(job(),), pods=(stuck,)))
    assert len(decision.status.model_dump_json()) < 8000
    assert all(len(event.message) <= 1000 for event in decision.events)


def test_d07_status_of_5000_batches_stays_small() -> None:
    status = begun(plan=PlanStatus(id=PLAN_ID, recorded="0-2499", completed=25_000))
    decision = think(with_plan(*[10] * 5000, run_=run(status, numWorkers=100)))
    assert len(decision.status.model_dump_json()) < 10_000
    assert decision.status.batch_progress == "2500/5000"


def test_timers_cover_every_age_that_is_asked_for() -> None:
    hanging = pod(runner=ended_runner(0))
    waits = pod(batch=1, runner=Container("runner"), sandboxes=(pulling("ErrImagePull"),))
    lonely = job(batch=2)
    held = keys(observed(jobs=(job(), lonely), pods=(hanging, waits, replace(pod(batch=3), leaving=True))))
    assert {ended_key(hanging), stuck_key(waits), pull_key(waits, waits.containers[1]), podless_key(lonely)} <= held


def test_conditions_fit_their_schema() -> None:
    for item in think(with_plan(1)).status.conditions:
        assert Condition.model_validate(item.to_wire()) == item


def test_every_batch_job_carries_its_numbers() -> None:
    (action,) = actions_of(think(with_plan(3)), EnsureJob)
    labels = action.manifest["metadata"]["labels"]
    assert (labels[names.LABEL_BATCH], labels[names.LABEL_ATTEMPT], labels[names.LABEL_PLAN]) == ("0", "1", PLAN_ID)
