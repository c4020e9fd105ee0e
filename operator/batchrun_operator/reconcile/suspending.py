"""Starting nothing more: because the user says so, or because every sample is thrown away."""

from batchrun_api.conditions import ConditionType, Reason
from batchrun_operator.reconcile import conditions
from batchrun_operator.reconcile.worksheet import Worksheet

TELLING_DISCARDS = 20
"""When the first so many prompts of a plan are all discarded, the rest would be money for nothing."""


def is_suspended(sheet: Worksheet) -> bool:
    """True: nothing new is started."""
    return conditions.holds(sheet.status, ConditionType.SUSPENDED)


def obey_suspend(sheet: Worksheet) -> bool:
    """`spec.suspend`; what is running goes on to its end."""
    condition = conditions.find(sheet.status, ConditionType.SUSPENDED)
    if sheet.spec.suspend:
        message = "running batches finish, no more start; set spec.suspend to false to go on"
        sheet.condition(ConditionType.SUSPENDED, True, Reason.SUSPENDED, message)
    elif condition is not None and condition.reason != Reason.ALL_DISCARDED:
        resume(sheet)
    return False


def suspend_when_all_are_discarded(sheet: Worksheet) -> None:
    """Looks at this plan's own outcomes, so a new plan (after a change or a retry) gets a new chance."""
    if sheet.spec.suspend or sheet.plan is None:
        return
    prompts, before = sheet.status.prompts, sheet.plan.counts
    others = prompts.completed + prompts.truncated + prompts.failed - before.completed - before.truncated
    if prompts.discarded - before.discarded >= TELLING_DISCARDS and others <= 0 and prompts.not_run > 0:
        message = (
            f"the first {prompts.discarded - before.discarded} prompts were all discarded, most likely because no "
            "reply shows reasoning. Set filters.requireReasoning to false, or a model that shows its reasoning"
        )
        sheet.condition(ConditionType.SUSPENDED, True, Reason.ALL_DISCARDED, message)
    else:
        resume(sheet)


def resume(sheet: Worksheet) -> None:
    """The condition stays, as in batch/v1, to say that it was suspended once."""
    if is_suspended(sheet):
        sheet.condition(ConditionType.SUSPENDED, False, Reason.RESUMED, "batches start again")
