"""Which steps become events: those that change a condition's status or reason, once."""

from batchrun_api.conditions import ConditionType, Reason
from batchrun_api.status import BatchRunStatus, Condition
from batchrun_operator.reconcile import conditions
from batchrun_operator.reconcile.decision import Event

_CALM = frozenset(
    {
        Reason.PLANNING,
        Reason.PLANNED,
        Reason.BATCHES_RUNNING,
        Reason.MERGING,
        Reason.SUSPENDED,
        Reason.RESUMED,
        Reason.SUPERSEDED,
        Reason.MODEL_ANSWERS,
        Reason.ALL_PROMPTS_DONE,
        Reason.SOME_PROMPTS_FAILED,
    }
)
_EVENT_LIMIT_CHARS = 1000


def events_of_change(old: BatchRunStatus, new: BatchRunStatus) -> list[Event]:
    """Events for what is new. A finished run's Planned and Progressing say nothing that its end does not."""
    finished = [kind for kind in (ConditionType.COMPLETE, ConditionType.FAILED) if conditions.holds(new, kind)]
    kinds = finished or [*ConditionType]
    return [
        _event(condition)
        for condition in new.conditions
        if condition.type in kinds and _key(condition) != _key(conditions.find(old, ConditionType(condition.type)))
    ]


def _key(condition: Condition | None) -> tuple[str, str] | None:
    return (condition.status, condition.reason) if condition else None


def _event(condition: Condition) -> Event:
    message = conditions.shortened_text(condition.message, _EVENT_LIMIT_CHARS)
    return Event("Normal" if condition.reason in _CALM else "Warning", condition.reason, message)
