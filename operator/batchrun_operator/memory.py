"""What is remembered of one run between passes. All of it can be lost: a restarted operator finds it again."""

from dataclasses import dataclass, field, fields
from datetime import datetime

from batchrun_api.hints import ModelHint
from batchrun_api.plan import Plan
from batchrun_api.toolsets import Distribution
from batchrun_operator.manifests.network_policy import Surroundings
from batchrun_operator.reconcile.observed import PlanLog, Refusal
from batchrun_operator.reconcile.timers import FirstSeen


@dataclass(slots=True)
class RunMemory:
    """Belongs to one UID: a re-created run begins with a new one."""

    uid: str = ""
    first_seen: FirstSeen = field(default_factory=FirstSeen)
    refusals: dict[str, Refusal] = field(default_factory=dict)
    """Jobs that the API server refused, by name."""
    plan_id: str = ""
    plan: Plan | None = None
    """Of `plan_id`; its ConfigMaps never change."""
    distribution: Distribution | None = None
    """Of `distribution_plan_id`, as its immutable configuration has it, where the spec refers to a ConfigMap."""
    distribution_plan_id: str = ""
    plan_log: PlanLog | None = None
    """What the log of `plan_log_pod` held; a finished container's log does not change."""
    plan_log_pod: str = ""
    model_hints: dict[str, ModelHint] = field(default_factory=dict)
    """By name of the pod, as the last look at logs found them."""
    hints_read_at: datetime | None = None
    hints_turn: int = 0
    """Counts the pods that were looked at, so that each has its turn."""
    around: tuple[str, datetime, Surroundings] | None = None
    """Of the plan of that id, as they were found at that time."""
    addresses: dict[str, dict[str, datetime]] = field(default_factory=dict)
    """What names of model and store have meant lately: address and when it was told last, by name."""
    written_version: str = ""
    """resourceVersion of our last write: its event is no news."""

    def belong_to(self, uid: str) -> None:
        """Forget everything that was remembered of another run of the same name."""
        if self.uid != uid:
            fresh = RunMemory(uid=uid)
            for each in fields(self):
                setattr(self, each.name, getattr(fresh, each.name))
