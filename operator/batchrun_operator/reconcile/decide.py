"""The decision: a chain of small policies, each of which may end the pass."""

from collections.abc import Callable
from datetime import datetime

from batchrun_operator.reconcile.batches import run_batches
from batchrun_operator.reconcile.decision import Decision
from batchrun_operator.reconcile.lifecycle import (
    begin_plan,
    clear_superseded,
    need_distribution,
    obey_deadline,
    refuse_invalid_spec,
    stay_finished,
    wait_for_knowledge,
)
from batchrun_operator.reconcile.merging import merge
from batchrun_operator.reconcile.observed import Observed
from batchrun_operator.reconcile.planning import announce_plan, make_plan
from batchrun_operator.reconcile.suspending import obey_suspend
from batchrun_operator.reconcile.telling import events_of_change
from batchrun_operator.reconcile.worksheet import Worksheet
from batchrun_operator.settings import Limits, PodSettings

Policy = Callable[[Worksheet], bool]

POLICIES: tuple[Policy, ...] = (
    wait_for_knowledge,
    begin_plan,
    stay_finished,
    refuse_invalid_spec,
    obey_deadline,
    obey_suspend,
    clear_superseded,
    need_distribution,
    make_plan,
    announce_plan,
    run_batches,
    merge,
)
"""In this order. True ends the pass."""


def decide(observed: Observed, now: datetime, pods: PodSettings, limits: Limits) -> Decision:
    """What the status shall say, and what is to be done. Pure: the same observation gives the same decision."""
    sheet = Worksheet(observed, now, pods, limits)
    for policy in POLICIES:
        if policy(sheet):
            break
    return Decision(
        status=sheet.status,
        actions=tuple(sheet.actions),
        events=(*events_of_change(observed.run.status, sheet.status), *sheet.events),
        settled=sheet.settled,
        again_after_seconds=sheet.again_after_seconds,
    )
