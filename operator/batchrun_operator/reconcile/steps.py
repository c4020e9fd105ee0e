"""What planning, batches and the merge share: lost attempts, clearing, last words."""

from batchrun_api.conditions import Reason
from batchrun_api.exit_codes import ExitCode
from batchrun_api.messages import StepMessage
from batchrun_api.spec.run import BatchRunSpec
from batchrun_operator.reconcile.attempts import Clearing, Ended, Lost, judge
from batchrun_operator.reconcile.lifecycle import fail
from batchrun_operator.reconcile.observed import Job, Pod
from batchrun_operator.reconcile.worksheet import Worksheet


def lose_attempt(
    sheet: Worksheet, key: str, what: str, lost: Lost, jobs: list[Job], pods: list[Pod], *, excused: int = 0
) -> bool:
    """Note a lost attempt and clear it away. True: it was one too many, the run has failed.

    `excused`: how many of the lost ones do not count.
    """
    sheet.update_plan(attempts=sheet.plan_status.attempts | {key: lost.attempt})
    sheet.event("Warning", "AttemptLost", f"{what}, attempt {lost.attempt}: {lost.why}")
    if lost.attempt - excused >= sheet.limits.max_attempts:
        message = f"{what}: {lost.attempt} attempts were lost, the last one because {lost.why}."
        fail(sheet, Reason.TOO_MANY_ATTEMPTS, message)
        return True
    verdict = judge(jobs, pods, lost.attempt, sheet.clock)
    if isinstance(verdict, Clearing):
        sheet.actions += verdict.actions
    return False


def fail_by_last_word(
    sheet: Worksheet, what: str, ended: Ended, reason: str, message: str = "", mend: str = ""
) -> None:
    """The runner said that something must be mended first; `mend`: the fix, where the message does not name it."""
    fallback = Reason.INVALID_SPEC if ended.code is ExitCode.BAD_INPUT else Reason.INTERNAL
    known = Reason(reason) if reason in [*Reason] else fallback
    # Not "see the pod's log": a failed run's pods are deleted.
    silent = f"{what}: its pod ended with exit code {int(ended.code)} and left no words"
    fail(sheet, known, ". ".join(text.rstrip(". ") for text in (message or silent, mend) if text))


def place_of_results(spec: BatchRunSpec, name: str) -> str:
    """`s3://bucket/prefix/runName/`; empty for a spec without output. `name`: of the BatchRun."""
    if spec.output is None:
        return ""
    folder = "/".join(part for part in (spec.output.s3.prefix, spec.run_name or name) if part)
    return f"s3://{spec.output.s3.bucket}/{folder}/"


def fail_by_step_message(sheet: Worksheet, what: str, ended: Ended) -> None:
    """The same for plan and merge, which have room for a message."""
    message: StepMessage | None = StepMessage.parse(ended.message)
    fail_by_last_word(sheet, what, ended, message.reason if message else "", message.message if message else "")
