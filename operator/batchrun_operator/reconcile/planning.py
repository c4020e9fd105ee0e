"""From nothing to a plan in ConfigMaps."""

from batchrun_api.conditions import ConditionType, Phase, Reason
from batchrun_api.exit_codes import ExitCode
from batchrun_api.plan import plan_in_words
from batchrun_api.status import BatchCounts, PlanStatus, PromptCounts
from batchrun_operator.manifests import config_map, plan_job, plan_shards
from batchrun_operator.manifests.meta import Role
from batchrun_operator.manifests.plan_shards import shard_name
from batchrun_operator.reconcile import conditions
from batchrun_operator.reconcile.attempts import Active, Clearing, Ended, Idle, Lost, is_gone, judge
from batchrun_operator.reconcile.decision import DeleteConfigMap, EnsureConfigMap, EnsureJob, PruneConfigMaps
from batchrun_operator.reconcile.lifecycle import fail
from batchrun_operator.reconcile.steps import fail_by_step_message, lose_attempt, place_of_results
from batchrun_operator.reconcile.suspending import is_suspended
from batchrun_operator.reconcile.troubles import trouble_of
from batchrun_operator.reconcile.worksheet import Worksheet

PLAN_KEY = "plan"
_WHAT = "planning"


def make_plan(sheet: Worksheet) -> bool:
    """Ends the pass until the plan is known."""
    shards = sheet.observed.shards
    if shards is None:
        return True
    if shards.plan is not None and not _is_given_up(sheet):
        sheet.plan = shards.plan
        return False
    if shards.plan is not None or shards.damage or _something_was_made_of_it(sheet):
        _start_over(sheet, "the stored plan is gone or damaged")
        return True
    if any(pod.role is not Role.PLAN and not is_gone(pod, sheet.clock) for pod in sheet.pods):
        sheet.progressing(True, Reason.PLAN_BROKEN, "waiting until pods of the lost plan are gone", Phase.PENDING)
        return True
    jobs, pods = sheet.step(Role.PLAN)
    verdict = judge(jobs, pods, sheet.attempts_lost(PLAN_KEY), sheet.clock)
    match verdict:
        case Ended(code=ExitCode.DONE):
            return _take_from_log(sheet, verdict)
        case Ended():
            fail_by_step_message(sheet, _WHAT, verdict)
        case Lost():
            if not lose_attempt(sheet, PLAN_KEY, _WHAT, verdict, jobs, pods):
                sheet.progressing(True, Reason.PLANNING, f"planning is tried again: {verdict.why}", Phase.PLANNING)
        case Clearing():
            sheet.actions += verdict.actions
            sheet.progressing(True, Reason.PLANNING, "waiting until a lost attempt is gone", Phase.PLANNING)
        case Idle():
            _start(sheet)
        case Active():
            _report(sheet, verdict)
    return True


def _something_was_made_of_it(sheet: Worksheet) -> bool:
    """Batches refer to a plan that is gone: another one would have other numbers."""
    known = sheet.plan_status
    of_plan = [job for job in sheet.jobs if job.role is not Role.PLAN]
    return bool(of_plan or known.recorded or known.merged)


def _is_given_up(sheet: Worksheet) -> bool:
    """The plan is still there, but a pass has begun to throw it away."""
    return _not_planned_because(sheet) == Reason.PLAN_BROKEN


def _not_planned_because(sheet: Worksheet) -> str:
    """Reason of a condition Planned that is False; empty where it is True or not there yet."""
    planned = conditions.find(sheet.status, ConditionType.PLANNED)
    return planned.reason if planned is not None and planned.status == "False" else ""


def plan_again(sheet: Worksheet, what: str, words: str) -> None:
    """A pod found what the plan has stored gone: another attempt of planning, or the end after too many.

    `what` found it, `words` name the object; empty where there was no room for them.
    """
    lost = sheet.attempts_lost(PLAN_KEY) + 1
    folder = f"{place_of_results(sheet.spec, sheet.run.name)}plans/"
    why = f"{what}: {words.rstrip('. ') or f'what the plan has stored in {folder} is gone'}"
    if lost >= sheet.limits.max_attempts:
        text = f"{why}. It was planned {lost} times: find out what deletes objects below {folder} and stop it"
        sheet.condition(ConditionType.PLANNED, False, Reason.PLAN_BROKEN, text)
        fail(sheet, Reason.PLAN_BROKEN, text)
        return
    sheet.update_plan(attempts={PLAN_KEY: lost})
    _start_over(sheet, why)


def _start_over(sheet: Worksheet, why: str) -> None:
    """Attempts of planning stay counted, so that this ends. Figures stay too, until there are new ones."""
    run = sheet.run
    lost = {key: number for key, number in sheet.plan_status.attempts.items() if key == PLAN_KEY}
    sheet.delete_jobs(sheet.jobs)
    sheet.actions.append(DeleteConfigMap(shard_name(run.name, run.uid, run.plan_id, 0)))
    sheet.update(plan=PlanStatus(id=run.plan_id, attempts=lost))
    message = f"{why}: planning again; what is finished is stored"
    if not _is_given_up(sheet):  # else the first words stay, which name the object
        sheet.condition(ConditionType.PLANNED, False, Reason.PLAN_BROKEN, message)
        sheet.progressing(True, Reason.PLAN_BROKEN, message, Phase.PENDING)


def _start(sheet: Worksheet) -> None:
    if is_suspended(sheet):
        sheet.progressing(False, Reason.SUSPENDED, "suspended before planning", Phase.SUSPENDED)
        return
    attempt = sheet.attempts_lost(PLAN_KEY) + 1
    manifest = plan_job(sheet.subject, attempt)
    sheet.actions += [
        PruneConfigMaps(sheet.run.plan_id),
        EnsureConfigMap(config_map(sheet.subject)),
        EnsureJob(manifest),
    ]
    refusal = sheet.observed.refusals.get(manifest["metadata"]["name"])
    if refusal is not None:
        _stuck(sheet, Reason(refusal.reason), refusal.message)
        return
    sheet.progressing(True, Reason.PLANNING, "reading the data set and what is stored", Phase.PLANNING)


def _report(sheet: Worksheet, active: Active) -> None:
    trouble = trouble_of(sheet, active)
    if trouble is not None:
        _stuck(sheet, trouble.reason, trouble.message)
        return
    sheet.progressing(True, Reason.PLANNING, "reading the data set and what is stored", Phase.PLANNING)


def _stuck(sheet: Worksheet, reason: Reason, message: str) -> None:
    sheet.progressing(False, reason, f"planning: {message}", Phase.PLANNING)


def _take_from_log(sheet: Worksheet, ended: Ended) -> bool:
    """False: the plan is whole, is being stored, and the pass goes on with it."""
    log = sheet.observed.plan_log
    if log is None or log.attempt != ended.pod.attempt:
        return True
    if log.plan is None or log.plan.plan_id != sheet.run.plan_id:
        jobs, pods = sheet.step(Role.PLAN)
        lost = Lost(ended.pod.attempt, log.error or "the log holds another plan")
        if not lose_attempt(sheet, PLAN_KEY, _WHAT, lost, jobs, pods):
            message = f"the plan did not come over whole: {lost.why}; planning again"
            sheet.condition(ConditionType.PLANNED, False, Reason.PLAN_BROKEN, message)
            sheet.progressing(True, Reason.PLAN_BROKEN, message, Phase.PLANNING)
        return True
    sheet.actions += [EnsureConfigMap(shard) for shard in plan_shards(sheet.subject, log.plan)]
    sheet.plan = log.plan
    return False


def announce_plan(sheet: Worksheet) -> bool:
    """The resume summary, once the plan is there; with it the figures of the plan before it are out of date."""
    if sheet.plan is None:
        return True
    if _not_planned_because(sheet):
        sheet.update(prompts=PromptCounts(), batches=BatchCounts(), failures=[], summary=None)
    counts = sheet.plan.counts
    text = "; ".join([plan_in_words(counts, len(sheet.plan.batches)), *sheet.plan.notes])
    sheet.update_plan(done_before=counts.done, invalid_rows=counts.invalid)
    sheet.condition(ConditionType.PLANNED, True, Reason.PLANNED, text)
    return False
