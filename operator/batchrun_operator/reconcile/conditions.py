"""Setting and removing conditions. Pure functions over the status."""

from datetime import UTC, datetime

from batchrun_api.conditions import ConditionType, Reason
from batchrun_api.status import BatchRunStatus, Condition

_MESSAGE_LIMIT_CHARS = 2048


def timestamp(now: datetime) -> str:
    """RFC 3339 in whole seconds, as Kubernetes writes it."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_timestamp(text: str | None) -> datetime | None:
    """Inverse of `timestamp`; None for what is none."""
    try:
        return datetime.strptime(text or "", "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None


def find(status: BatchRunStatus, kind: ConditionType) -> Condition | None:
    """The condition of that type."""
    return next((condition for condition in status.conditions if condition.type == kind), None)


def holds(status: BatchRunStatus, kind: ConditionType) -> bool:
    """True: the condition is there and True."""
    condition = find(status, kind)
    return condition is not None and condition.status == "True"


def with_condition(
    status: BatchRunStatus, now: datetime, kind: ConditionType, value: bool, reason: Reason, message: str
) -> BatchRunStatus:
    """The status with this condition; its transition time moves only when its status does."""
    old = find(status, kind)
    word = "True" if value else "False"
    new = Condition(
        type=kind.value,
        status="True" if value else "False",
        reason=reason.value,
        message=shortened_text(message, _MESSAGE_LIMIT_CHARS),
        last_transition_time=old.last_transition_time if old and old.status == word else timestamp(now),
        observed_generation=status.observed_generation,
    )
    if old is None:
        return status.model_copy(update={"conditions": [*status.conditions, new]})
    return status.model_copy(update={"conditions": [new if item.type == kind else item for item in status.conditions]})


def without_conditions(status: BatchRunStatus, *kinds: ConditionType) -> BatchRunStatus:
    """The status without conditions of these types."""
    return status.model_copy(update={"conditions": [item for item in status.conditions if item.type not in kinds]})


def shortened_text(text: str, limit_chars: int) -> str:
    """`text` with its end replaced by an ellipsis where it is too long."""
    return text if len(text) <= limit_chars else text[: limit_chars - 1] + "…"
