"""Pods that the kubelet ended: whose fault its words say it is, and what the next attempt must know of it.

The words are the kubelet's own, for people; nothing else in Kubernetes names the container (docs/decisions/0016).
"""

import re
from collections.abc import Iterable

from batchrun_api.conditions import ConditionType
from batchrun_api.conditions import Reason as ConditionReason
from batchrun_api.messages import MAX_LOST_TO_ONE_SANDBOX, Culprit, Signals
from batchrun_api.names import SANDBOX_CONTAINER_PREFIX
from batchrun_api.outcomes import Reason
from batchrun_api.quantities import parse_quantity
from batchrun_api.status import Eviction
from batchrun_operator.reconcile.attempts import Lost
from batchrun_operator.reconcile.conditions import shortened_text
from batchrun_operator.reconcile.observed import Pod
from batchrun_operator.reconcile.worksheet import Worksheet

_KEPT = 100
_WORDS_LIMIT_CHARS = 200
_OWN_LIMIT = re.compile(
    r'Container sandbox-(\d+) exceeded its local ephemeral storage limit|EmptyDir volume "shm-(\d+)" exceeds',
    re.IGNORECASE,
)
_POD_LIMIT = re.compile(r"ephemeral local storage usage exceeds the total limit", re.IGNORECASE)
_USE = re.compile(r"Container sandbox-(\d+) was using ([0-9][^\s,]*)", re.IGNORECASE)


def blamed(words: str, sandboxes: int) -> tuple[int, Reason] | None:
    """Index of the sandbox that the kubelet's words blame, of a pod with so many; None: they name none.

    A node that ran short is nobody's limit: then it is the sandbox that used the most, as the kubelet's own ranking.
    """
    own = _OWN_LIMIT.search(words)
    if own is not None:
        found = int(own[1] or own[2])
        return (found, Reason.DISK_FULL) if found < sandboxes else None
    if _POD_LIMIT.search(words):
        return (0, Reason.DISK_FULL) if sandboxes == 1 else None
    uses = [(_bytes(use), int(index)) for index, use in _USE.findall(words) if int(index) < sandboxes]
    return (max(uses)[1], Reason.EVICTED) if uses else None


def _bytes(text: str) -> float:
    try:
        return float(parse_quantity(text))
    except ValueError:
        return 0.0


def note_loss(sheet: Worksheet, batch: int, lost: Lost, pods: Iterable[Pod]) -> None:
    """Keep in the status why an attempt was lost: its pod, with the words, is gone when the next one begins."""
    pod = next((pod for pod in pods if pod.attempt == lost.attempt and pod.eviction), None)
    why = shortened_text(lost.why, _WORDS_LIMIT_CHARS)
    known = {key: words for key, words in sheet.plan_status.last_losses.items() if key != str(batch)}
    sheet.update_plan(last_losses=dict([*known.items()][-(_KEPT - 1) :]) | {str(batch): why})
    reason = ConditionReason.RUNNER_LOST
    if pod is not None:
        reason = _note_eviction(sheet, batch, pod)
    message = f"batch {batch}, attempt {lost.attempt} was lost: {lost.why}"
    sheet.condition(ConditionType.DISRUPTED, True, reason, message)


def _note_eviction(sheet: Worksheet, batch: int, pod: Pod) -> ConditionReason:
    sandboxes = sum(container.name.startswith(SANDBOX_CONTAINER_PREFIX) for container in pod.containers)
    found = blamed(pod.eviction, sandboxes)
    if found is None:
        return ConditionReason.DISK_FULL if _POD_LIMIT.search(pod.eviction) else ConditionReason.EVICTED
    index, reason = found
    kept = sheet.plan_status.evictions
    before = next((item for item in kept if (item.batch, item.sandbox) == (batch, index)), None)
    newest = Eviction(
        batch=batch,
        sandbox=index,
        attempts=(before.attempts if before else 0) + 1,
        reason=reason.value,
        message=shortened_text(pod.eviction, _WORDS_LIMIT_CHARS),
    )
    others = [item for item in kept if item is not before]
    sheet.update_plan(evictions=[*others[-(_KEPT - 1) :], newest])
    return ConditionReason(reason.value)


def excused(sheet: Worksheet, batch: int) -> int:
    """Lost attempts that have a culprit: bounded by their own number, they do not use up the batch's attempts."""
    of_batch = [item for item in sheet.plan_status.evictions if item.batch == batch]
    return sum(min(item.attempts, MAX_LOST_TO_ONE_SANDBOX) for item in of_batch)


def forget_losses(sheet: Worksheet, batch: int) -> None:
    """The batch is recorded: nobody will ask again."""
    known = sheet.plan_status
    sheet.update_plan(
        evictions=[item for item in known.evictions if item.batch != batch],
        last_losses={key: words for key, words in known.last_losses.items() if key != str(batch)},
    )


def told_of_losses(sheet: Worksheet, batch: int) -> Signals:
    """What the runner of the next attempt knows from its beginning."""
    culprits = {
        item.sandbox: Culprit(attempts=item.attempts, reason=Reason(item.reason), message=_words(item))
        for item in sheet.plan_status.evictions
        if item.batch == batch and item.attempts > 0
    }
    return Signals(culprits=culprits, last_loss=sheet.plan_status.last_losses.get(str(batch), ""))


def _words(item: Eviction) -> str:
    times = "once" if item.attempts == 1 else "twice" if item.attempts == 2 else f"{item.attempts} times"
    return f"its pod was evicted {times}: {item.message}"
