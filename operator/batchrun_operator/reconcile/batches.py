"""The batches of a plan: record those that ended, note lost attempts, start the next."""

from collections import defaultdict
from dataclasses import dataclass, field

from batchrun_api.conditions import Phase, Reason
from batchrun_api.exit_codes import ExitCode
from batchrun_api.messages import BatchMessage
from batchrun_api.plan import Plan, PlannedBatch
from batchrun_operator.manifests import batch_job, config_map
from batchrun_operator.reconcile.attempts import Active, Clearing, Ended, Idle, Lost, Verdict, is_gone, judge
from batchrun_operator.reconcile.decision import DeleteJob, EnsureConfigMap, EnsureJob
from batchrun_operator.reconcile.evictions import excused, forget_losses, note_loss, told_of_losses
from batchrun_operator.reconcile.model_server import look_at_rate_limit, model_trouble, what_to_mend
from batchrun_operator.reconcile.network import HOW_TO_ENFORCE, keep_policy
from batchrun_operator.reconcile.observed import Job, Pod, Refusal
from batchrun_operator.reconcile.planning import plan_again
from batchrun_operator.reconcile.progress import count_progress
from batchrun_operator.reconcile.ranges import format_ranges, parse_ranges
from batchrun_operator.reconcile.signals import signal_pod
from batchrun_operator.reconcile.steps import fail_by_last_word, lose_attempt
from batchrun_operator.reconcile.suspending import is_suspended, suspend_when_all_are_discarded
from batchrun_operator.reconcile.timers import ended_key
from batchrun_operator.reconcile.troubles import Trouble, trouble_of
from batchrun_operator.reconcile.worksheet import Worksheet


@dataclass(slots=True)
class _Round:
    """What one look at all batches found."""

    recorded: set[int]
    idle: list[PlannedBatch] = field(default_factory=list)
    active: list[tuple[PlannedBatch, Active]] = field(default_factory=list)
    busy: int = 0
    """Batches that take a place among `numWorkers`: active ones and those whose last attempt is leaving."""


def run_batches(sheet: Worksheet) -> bool:
    """Ends the pass until every batch is recorded."""
    plan = sheet.plan
    if plan is None:
        return True
    turn = _Round(recorded=_recorded(sheet, plan))
    if _look_at_all(sheet, plan, turn):
        return True
    _remove_hanging(sheet, turn.recorded)
    for _, active in turn.active:
        if active.pod is not None:
            signal_pod(sheet, active.pod)
    count_progress(sheet, plan, turn.recorded, [active.pod for _, active in turn.active if active.pod is not None])
    suspend_when_all_are_discarded(sheet)
    at_work = {batch.number: active.pod for batch, active in turn.active if active.pod is not None}
    look_at_rate_limit(sheet, at_work)
    unkept = keep_policy(sheet)
    trouble = _first_trouble(sheet, turn) or model_trouble(sheet, at_work) or unkept
    # Without the policy no batch may begin.
    started = [] if unkept else _start(sheet, plan, turn)
    _report(sheet, plan, turn, started, trouble)
    return len(turn.recorded) < len(plan.batches)


def _recorded(sheet: Worksheet, plan: Plan) -> set[int]:
    return parse_ranges(sheet.plan_status.recorded) & {batch.number for batch in plan.batches}


def _by_batch(sheet: Worksheet) -> dict[int, tuple[list[Job], list[Pod]]]:
    found: dict[int, tuple[list[Job], list[Pod]]] = defaultdict(lambda: ([], []))
    for job in sheet.jobs:
        if job.batch is not None and job.plan_id == sheet.run.plan_id:
            found[job.batch][0].append(job)
    for pod in sheet.pods:
        if pod.batch is not None and pod.plan_id == sheet.run.plan_id:
            found[pod.batch][1].append(pod)
    return found


def _look_at_all(sheet: Worksheet, plan: Plan, turn: _Round) -> bool:
    """True: the run has failed, or is planned again."""
    found = _by_batch(sheet)
    for batch in plan.batches:
        if batch.number in turn.recorded:
            continue
        jobs, pods = found.get(batch.number, ([], []))
        verdict = judge(jobs, pods, sheet.attempts_lost(str(batch.number)), sheet.clock)
        if _look_at_one(sheet, turn, batch, verdict, (jobs, pods)):
            return True
    return False


def _look_at_one(
    sheet: Worksheet, turn: _Round, batch: PlannedBatch, verdict: Verdict, step: tuple[list[Job], list[Pod]]
) -> bool:
    match verdict:
        case Ended(code=ExitCode.DONE):
            if _record(sheet, turn, batch, verdict.message):
                return False
            verdict = Lost(verdict.pod.attempt, "its last word cannot be read")
        case Ended():
            what = f"batch {batch.number}"
            message: BatchMessage = BatchMessage.parse(verdict.message) or BatchMessage()
            if message.reason == Reason.PLAN_BROKEN:
                plan_again(sheet, what, message.message)
                return True
            mend = what_to_mend(sheet.spec, message.reason, of_store=message.of_store)
            if message.reason == Reason.NETWORK_NOT_ENFORCED:
                mend = HOW_TO_ENFORCE
            words = f"{what}: {message.message}" if message.message else ""
            fail_by_last_word(sheet, what, verdict, message.reason, words, mend)
            return True
    match verdict:
        case Lost():
            turn.busy += 1
            note_loss(sheet, batch.number, verdict, step[1])
            free = excused(sheet, batch.number)
            return lose_attempt(sheet, str(batch.number), f"batch {batch.number}", verdict, *step, excused=free)
        case Clearing():
            turn.busy += 1
            sheet.actions += verdict.actions
            sheet.look_again(sheet.limits.overdue_seconds)
        case Active():
            turn.busy += 1
            turn.active.append((batch, verdict))
        case Idle():
            turn.idle.append(batch)
    return False


def _record(sheet: Worksheet, turn: _Round, batch: PlannedBatch, text: str) -> bool:
    """Count a batch whose every prompt has an outcome. False: its message does not say so."""
    message: BatchMessage | None = BatchMessage.parse(text)
    if message is None or message.left > 0:
        return False
    turn.recorded.add(batch.number)
    forget_losses(sheet, batch.number)
    known = sheet.plan_status
    attempts = {key: value for key, value in known.attempts.items() if key != str(batch.number)}
    sheet.update_plan(
        recorded=format_ranges(turn.recorded),
        attempts=attempts,
        completed=known.completed + message.completed,
        truncated=known.truncated + message.truncated,
        discarded=known.discarded + message.discarded,
        failed=known.failed + message.failed,
    )
    return True


def _remove_hanging(sheet: Worksheet, recorded: set[int]) -> None:
    """The backstop: a recorded batch whose pod does not end, because a sandbox hangs."""
    jobs = {(job.batch, job.attempt): job for job in sheet.jobs if job.plan_id == sheet.run.plan_id}
    for pod in sheet.pods:
        if pod.batch not in recorded or pod.plan_id != sheet.run.plan_id or is_gone(pod, sheet.clock):
            continue
        job = jobs.get((pod.batch, pod.attempt))
        if job is None or job.leaving or sheet.patient(ended_key(pod), sheet.limits.backstop_seconds):
            continue
        # The Job, not the pod: its controller would make another pod.
        sheet.actions.append(DeleteJob(job.name, job.uid))


def _start(sheet: Worksheet, plan: Plan, turn: _Round) -> list[str]:
    """Names of the Jobs that are asked for. Batches that were begun come first."""
    places = sheet.spec.num_workers - turn.busy
    if is_suspended(sheet) or places <= 0 or not turn.idle:
        return []
    chosen = sorted(turn.idle, key=lambda batch: (sheet.attempts_lost(str(batch.number)) == 0, batch.number))[:places]
    subject = sheet.subject
    jobs = [
        batch_job(subject, plan, batch, sheet.attempts_lost(str(batch.number)) + 1, told_of_losses(sheet, batch.number))
        for batch in chosen
    ]
    sheet.actions += [EnsureConfigMap(config_map(subject)), *(EnsureJob(job) for job in jobs)]
    return [job["metadata"]["name"] for job in jobs]


def _first_trouble(sheet: Worksheet, turn: _Round) -> Trouble | None:
    found = [(batch, trouble_of(sheet, active)) for batch, active in turn.active]
    for batch, trouble in found:
        if trouble is not None:
            return Trouble(trouble.reason, f"batch {batch.number}: {trouble.message}")
    return None


def _report(sheet: Worksheet, plan: Plan, turn: _Round, started: list[str], trouble: Trouble | None) -> None:
    total, finished = len(plan.batches), len(turn.recorded)
    refused = [sheet.observed.refusals[name] for name in started if name in sheet.observed.refusals]
    active = len(turn.active) + len(started) - len(refused)
    sheet.update(
        batch_progress=f"{finished}/{total}",
        batches=sheet.status.batches.model_copy(update={"total": total, "active": active, "finished": finished}),
    )
    if finished == total:
        return
    text = f"{finished} of {total} batches finished, {active} at work"
    if is_suspended(sheet) and not turn.busy:
        sheet.progressing(False, Reason.SUSPENDED, f"suspended: {text}", Phase.SUSPENDED)
        return
    if trouble is None and refused:
        trouble = _as_trouble(refused[0])
    if trouble is None:
        sheet.progressing(True, Reason.BATCHES_RUNNING, text, Phase.RUNNING)
    else:
        works = trouble.reason is not Reason.MODEL_UNAVAILABLE and any(
            active.pod is not None and trouble_of(sheet, active) is None for _, active in turn.active
        )
        sheet.progressing(works, trouble.reason, f"{text}; {trouble.message}", Phase.RUNNING)


def _as_trouble(refusal: Refusal) -> Trouble:
    return Trouble(Reason(refusal.reason), refusal.message)
