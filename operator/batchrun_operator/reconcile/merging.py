"""The merge, and with it the end of a run."""

from pydantic import ValidationError

from batchrun_api.conditions import Phase, Reason
from batchrun_api.exit_codes import ExitCode
from batchrun_api.messages import MergeResult, RewardFigures, StepMessage
from batchrun_api.plan import total_in_words
from batchrun_api.status import Failure, PassAt, PromptCounts, RewardSummary, Summary
from batchrun_api.text import counted
from batchrun_operator.manifests import config_map, merge_job
from batchrun_operator.manifests.meta import Role
from batchrun_operator.reconcile.attempts import Active, Clearing, Ended, Idle, Lost, judge
from batchrun_operator.reconcile.conditions import shortened_text
from batchrun_operator.reconcile.decision import EnsureConfigMap, EnsureJob
from batchrun_operator.reconcile.lifecycle import complete, fail, how_to_retry
from batchrun_operator.reconcile.planning import plan_again
from batchrun_operator.reconcile.progress import with_outcome
from batchrun_operator.reconcile.steps import fail_by_step_message, lose_attempt, place_of_results
from batchrun_operator.reconcile.suspending import is_suspended
from batchrun_operator.reconcile.troubles import trouble_of
from batchrun_operator.reconcile.worksheet import Worksheet

MERGE_KEY = "merge"
_WHAT = "the merge"
_SHOWN_REASONS = 64


def merge(sheet: Worksheet) -> bool:
    """Always ends the pass."""
    jobs, pods = sheet.step(Role.MERGE)
    verdict = judge(jobs, pods, sheet.attempts_lost(MERGE_KEY), sheet.clock)
    match verdict:
        case Ended(code=ExitCode.DONE):
            result = _result(verdict.message)
            if result is not None:
                _finish(sheet, result)
                return True
            verdict = Lost(verdict.pod.attempt, "its last word cannot be read")
        case Ended():
            _cannot_go_on(sheet, verdict)
            return True
    match verdict:
        case Lost():
            if not lose_attempt(sheet, MERGE_KEY, _WHAT, verdict, jobs, pods):
                sheet.progressing(True, Reason.MERGING, f"merging is tried again: {verdict.why}", Phase.MERGING)
        case Clearing():
            sheet.actions += verdict.actions
            sheet.progressing(True, Reason.MERGING, "waiting until a lost attempt is gone", Phase.MERGING)
        case Idle():
            _start(sheet)
        case Active():
            _report(sheet, verdict)
    return True


def _cannot_go_on(sheet: Worksheet, ended: Ended) -> None:
    message: StepMessage | None = StepMessage.parse(ended.message)
    if message is not None and message.reason == Reason.PLAN_BROKEN:
        plan_again(sheet, _WHAT, message.message)
    else:
        fail_by_step_message(sheet, _WHAT, ended)


def _start(sheet: Worksheet) -> None:
    if is_suspended(sheet):
        sheet.progressing(False, Reason.SUSPENDED, "suspended before the merge", Phase.SUSPENDED)
        return
    manifest = merge_job(sheet.subject, sheet.attempts_lost(MERGE_KEY) + 1)
    sheet.actions += [EnsureConfigMap(config_map(sheet.subject)), EnsureJob(manifest)]
    refusal = sheet.observed.refusals.get(manifest["metadata"]["name"])
    if refusal is not None:
        sheet.progressing(False, Reason(refusal.reason), f"the merge: {refusal.message}", Phase.MERGING)
        return
    sheet.progressing(True, Reason.MERGING, "putting the results of all batches together", Phase.MERGING)


def _report(sheet: Worksheet, active: Active) -> None:
    trouble = trouble_of(sheet, active)
    if trouble is not None:
        sheet.progressing(False, trouble.reason, f"the merge: {trouble.message}", Phase.MERGING)
        return
    sheet.progressing(True, Reason.MERGING, "putting the results of all batches together", Phase.MERGING)


def _result(text: str) -> MergeResult | None:
    message: StepMessage | None = StepMessage.parse(text)
    try:
        return MergeResult.model_validate(message.result) if message is not None else None
    except ValidationError:
        return None


def _finish(sheet: Worksheet, result: MergeResult) -> None:
    prompts = PromptCounts(
        total=result.total,
        completed=result.completed,
        truncated=result.truncated,
        discarded=result.discarded,
        failed=result.failed,
        not_run=result.not_run,
        orphaned=result.orphaned,
    )
    sheet.update_plan(merged=True)
    sheet.update(
        prompts=prompts,
        progress=f"{with_outcome(prompts)}/{prompts.total}",
        summary=Summary(
            total_tokens=result.total_tokens,
            tool_calls=result.tool_calls,
            reasons={key[:64]: number for key, number in [*result.reasons.items()][:_SHOWN_REASONS]},
            reward=_reward(result.reward),
        ),
        failures=[
            Failure(
                prompt_index=max(-1, note.prompt_index),
                sample=note.sample,
                id=note.id,
                reason=shortened_text(note.reason, 64),
                message=note.message,
            )
            for note in result.failures
        ],
    )
    _judge(sheet, result)


def _reward(figures: RewardFigures | None) -> RewardSummary | None:
    if figures is None:
        return None
    pass_at = [PassAt(k=item.k, value=_decimal(item.value), prompts=item.prompts) for item in figures.pass_at]
    return RewardSummary(count=figures.count, mean=_decimal(figures.mean), pass_at=pass_at)


def _decimal(value: float) -> str:
    """Six digits, and short whatever a verifier has written."""
    return f"{value:.6g}"


def _judge(sheet: Worksheet, result: MergeResult) -> None:
    text = _summary(sheet, result)
    limit = sheet.spec.failure_policy.max_failed_percent
    if result.failed * 100 > limit * result.total:
        fail(sheet, Reason.TOO_MANY_PROMPTS_FAILED, f"{text} More than failurePolicy.maxFailedPercent: {limit} failed.")
    elif result.not_run:
        damaged = ", ".join(f"{name} ({counted(lines, 'line')})" for name, lines in result.damaged.items())
        cause = f" Stored rows are damaged and left out: {damaged}." if damaged else ""
        fail(sheet, Reason.PROMPTS_NOT_RUN, f"{text}{cause} They run again on resume.")
    elif result.failed:
        complete(
            sheet, Reason.SOME_PROMPTS_FAILED, f"{text} Failed prompts run again on resume. {_how_to_resume(sheet)}"
        )
    else:
        complete(sheet, Reason.ALL_PROMPTS_DONE, f"{text} {_how_to_resume(sheet)}")


def _summary(sheet: Worksheet, result: MergeResult) -> str:
    parts = [
        (result.completed, "completed"),
        (result.truncated, "truncated"),
        (result.discarded, "discarded"),
        (result.failed, "failed"),
        (result.not_run, "not run"),
        (result.orphaned, "orphaned"),
    ]
    words = ", ".join(f"{number} {word}" for number, word in parts if number)
    place = place_of_results(sheet.spec, sheet.run.name)
    where = f" Results are in {place}." if place else ""
    total = total_in_words(result.total, sheet.spec.samples_per_prompt)
    return f"{total}: {words or 'none'}.{_passing(result.reward)}{where}"


def _passing(figures: RewardFigures | None) -> str:
    if figures is None:
        return ""
    said = [f"pass@{item.k} {item.value:.3f} over {counted(item.prompts, 'prompt')}" for item in figures.pass_at]
    return f" {', '.join(said)}."


def _how_to_resume(sheet: Worksheet) -> str:
    return (
        "Applying the same file again changes nothing; to resume, apply it with a change, or "
        f"kubectl replace --force -f FILE, or {how_to_retry(sheet)}"
    )
