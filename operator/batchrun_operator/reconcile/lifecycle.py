"""Beginning, ending, and what is left to do after the end."""

from batchrun_api.conditions import ConditionType, Phase, Reason
from batchrun_api.status import PlanStatus
from batchrun_operator.reconcile import conditions
from batchrun_operator.reconcile.attempts import is_gone
from batchrun_operator.reconcile.decision import DeletePod
from batchrun_operator.reconcile.model_server import end_rate_limit
from batchrun_operator.reconcile.suspending import resume
from batchrun_operator.reconcile.worksheet import Worksheet

_DISTRIBUTION_SECONDS = 10.0
"""How often a missing ConfigMap is looked for: those of users are not watched."""


def wait_for_knowledge(sheet: Worksheet) -> bool:
    """Nothing is decided about Jobs and pods that could not be listed, nor about a run that is being deleted."""
    return sheet.run.leaving or sheet.observed.jobs is None or sheet.observed.pods is None


def begin_plan(sheet: Worksheet) -> bool:
    """A new run, a changed spec or a new retry annotation. The figures shown stay until the new plan is there."""
    known = sheet.status.plan
    if known is not None and known.id == sheet.run.plan_id:
        return False
    was_finished = is_finished(sheet)
    started = sheet.status.start_time
    of_before = (ConditionType.COMPLETE, ConditionType.FAILED, ConditionType.DISRUPTED)
    sheet.status = conditions.without_conditions(sheet.status, *of_before)
    sheet.update(
        plan=PlanStatus(id=sheet.run.plan_id),
        batches=sheet.status.batches.model_copy(update={"active": 0}),
        completion_time=None,
        start_time=conditions.timestamp(sheet.now) if was_finished or started is None else started,
        phase=Phase.PENDING.value,
    )
    resume(sheet)
    if known is None:
        sheet.condition(ConditionType.PLANNED, False, Reason.PLANNING, "the data set is to be read")
    else:
        message = "the spec or the retry annotation changed: what is stored stays, the rest is planned again"
        sheet.condition(ConditionType.PLANNED, False, Reason.SUPERSEDED, message)
    return False


def refuse_invalid_spec(sheet: Worksheet) -> bool:
    """What the schema let through and yet cannot be."""
    if sheet.run.spec is None:
        fail(sheet, sheet.run.spec_error_reason, f"{sheet.run.spec_error}. Mend the spec and apply it again.")
    return sheet.run.spec is None


def obey_deadline(sheet: Worksheet) -> bool:
    """`activeDeadlineSeconds`, counted from the status's start time."""
    limit, started = sheet.spec.active_deadline_seconds, conditions.parse_timestamp(sheet.status.start_time)
    if limit is None or started is None:
        return False
    left = limit - (sheet.now - started).total_seconds()
    if left > 0:
        sheet.look_again(left)
        return False
    message = f"activeDeadlineSeconds: {limit} is over. What is finished is stored. Raise it to go on with the rest."
    fail(sheet, Reason.DEADLINE_EXCEEDED, message)
    return True


def clear_superseded(sheet: Worksheet) -> bool:
    """Pods of another plan finish what they are writing and go, before anything of this plan starts."""
    plan_id = sheet.run.plan_id
    jobs = [job for job in sheet.jobs if job.plan_id != plan_id]
    pods = [pod for pod in sheet.pods if pod.plan_id != plan_id and not is_gone(pod, sheet.clock)]
    if not jobs and not pods:
        return False
    sheet.delete_jobs(jobs)
    with_job = {(job.role, job.batch, job.attempt) for job in jobs}
    orphans = [pod for pod in pods if (pod.role, pod.batch, pod.attempt) not in with_job and not pod.leaving]
    sheet.actions += [DeletePod(pod.name, pod.uid) for pod in orphans]
    message = f"waiting until {len(jobs)} Jobs and {len(pods)} pods of the previous plan are gone"
    sheet.progressing(True, Reason.SUPERSEDED, message, Phase.PENDING)
    sheet.look_again(sheet.limits.overdue_seconds)
    return True


def need_distribution(sheet: Worksheet) -> bool:
    """A ConfigMap that is missing may still come, in one `kubectl apply` with the run; a wrong one ends the run."""
    missing = sheet.observed.no_distribution
    if missing is None:
        return False
    if missing.reason is Reason.CONTAINER_CONFIG_ERROR:
        sheet.progressing(False, missing.reason, f"planning: {missing.message}", Phase.PENDING)
        sheet.look_again(_DISTRIBUTION_SECONDS)
    else:
        fail(sheet, missing.reason, f"{missing.message}. Mend the ConfigMap or the spec")
    return True


def is_finished(sheet: Worksheet) -> bool:
    """True: Complete or Failed."""
    return any(conditions.holds(sheet.status, kind) for kind in (ConditionType.COMPLETE, ConditionType.FAILED))


def fail(sheet: Worksheet, reason: Reason, message: str) -> None:
    """The run ends Failed; what is running is stopped and stores what it has."""
    text = (
        message if sheet.run.spec is None else f"{message.rstrip('. ')}. To try again unchanged: {how_to_retry(sheet)}"
    )
    _end(sheet, ConditionType.FAILED, Phase.FAILED, reason, text)
    if reason is not Reason.TOO_MANY_PROMPTS_FAILED:
        sheet.delete_jobs(job for job in sheet.jobs if not job.finished)


def complete(sheet: Worksheet, reason: Reason, message: str) -> None:
    """The run ends Complete."""
    _end(sheet, ConditionType.COMPLETE, Phase.COMPLETE, reason, message)


def _end(sheet: Worksheet, kind: ConditionType, phase: Phase, reason: Reason, message: str) -> None:
    planned = conditions.find(sheet.status, ConditionType.PLANNED)
    if planned is not None and planned.status != "True":
        sheet.condition(ConditionType.PLANNED, False, reason, message)
    sheet.progressing(False, reason, message, phase)
    end_rate_limit(sheet)
    sheet.condition(kind, True, reason, message)
    batches = sheet.status.batches.model_copy(update={"active": 0})
    sheet.update(completion_time=conditions.timestamp(sheet.now), batches=batches)


def how_to_retry(sheet: Worksheet) -> str:
    """The command that makes a finished run go on without a change."""
    name, namespace = sheet.run.name, sheet.run.namespace
    return f"kubectl -n {namespace} annotate batchrun {name} batchrun.dev/retry=$(date +%s) --overwrite"


def stay_finished(sheet: Worksheet) -> bool:
    """A finished run starts nothing; its last pods go, and after the TTL its Jobs."""
    if not is_finished(sheet):
        return False
    leftovers = [job for job in sheet.jobs if not job.finished]
    if conditions.holds(sheet.status, ConditionType.FAILED):
        sheet.delete_jobs(leftovers)
    elif leftovers:
        sheet.delete_jobs(job for job in leftovers if not _still_winding_down(sheet))
    sheet.settled = not leftovers and _ttl_is_done(sheet)
    return True


def _still_winding_down(sheet: Worksheet) -> bool:
    ended = conditions.parse_timestamp(sheet.status.completion_time)
    left = sheet.limits.backstop_seconds - (sheet.now - ended).total_seconds() if ended else 0.0
    if left > 0:
        sheet.look_again(left)
    return left > 0


def _ttl_is_done(sheet: Worksheet) -> bool:
    """Deletes all Jobs when their time has come. True: there is nothing (more) to delete."""
    ttl = sheet.run.spec.ttl_seconds_after_finished if sheet.run.spec else None
    ended = conditions.parse_timestamp(sheet.status.completion_time)
    if ttl is None or ended is None or not sheet.jobs:
        return True
    left = ttl - (sheet.now - ended).total_seconds()
    if left > 0:
        sheet.look_again(left)
    else:
        sheet.delete_jobs(sheet.jobs)
    return False
