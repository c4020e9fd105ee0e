"""What is observed of a run. `None` is not known, empty is known to be empty."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from batchrun_api.conditions import ConditionType, Reason
from batchrun_api.hints import ModelHint
from batchrun_api.plan import Plan
from batchrun_api.spec.run import BatchRunSpec
from batchrun_api.status import BatchRunStatus
from batchrun_operator.manifests.meta import Role
from batchrun_operator.manifests.network_policy import Surroundings
from batchrun_operator.reconcile import conditions


@dataclass(frozen=True, slots=True)
class Run:
    """The BatchRun itself."""

    name: str
    namespace: str
    uid: str
    generation: int
    spec: BatchRunSpec | None
    """None: it is not valid, `spec_error` says why."""
    spec_error: str
    spec_error_reason: Reason
    plan_id: str
    """What the plan's id must be, for this spec and retry annotation."""
    status: BatchRunStatus
    leaving: bool = False
    """It is being deleted."""

    @property
    def is_finished(self) -> bool:
        """True: Complete or Failed, and nothing has changed since that would make it begin again."""
        plan = self.status.plan
        if plan is None or plan.id != self.plan_id:
            return False
        return any(conditions.holds(self.status, kind) for kind in (ConditionType.COMPLETE, ConditionType.FAILED))


@dataclass(frozen=True, slots=True)
class Waiting:
    """A container that has not started."""

    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Running:
    """A container that runs."""


@dataclass(frozen=True, slots=True)
class Terminated:
    """A container that ended."""

    exit_code: int
    reason: str = ""
    message: str = ""


ContainerState = Waiting | Running | Terminated


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a pod."""

    name: str
    image: str = ""
    state: ContainerState = Waiting("")
    last: Terminated | None = None
    """How it ended before it was restarted."""
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod of the run."""

    name: str
    uid: str
    resource_version: str
    role: Role
    plan_id: str
    attempt: int
    batch: int | None = None
    """None for plan and merge."""
    phase: str = "Pending"
    leaving: bool = False
    """It is being deleted."""
    unschedulable: str = ""
    """The scheduler's words, empty where it has none."""
    end: str = ""
    """Why Kubernetes ended the pod: Evicted, NodeLost, ...; empty where it did not."""
    eviction: str = ""
    """The kubelet's words where it ends, or has ended, the pod: its node runs short, or a limit is exceeded."""
    signals: str = ""
    """The signals annotation."""
    containers: tuple[Container, ...] = ()
    """Without init containers."""
    install: Container | None = None
    browser: Container | None = None

    @property
    def over(self) -> bool:
        """True: none of its containers will ever run again."""
        return self.phase in ("Succeeded", "Failed")

    def container(self, name: str) -> Container | None:
        """The container of that name."""
        return next((container for container in self.containers if container.name == name), None)


@dataclass(frozen=True, slots=True)
class Job:
    """One Job of the run."""

    name: str
    uid: str
    role: Role
    plan_id: str
    attempt: int
    batch: int | None = None
    """None for plan and merge."""
    suspended: bool = False
    """Somebody (Kueue) holds it back, or did."""
    finished: bool = False
    """Complete or Failed in the Job controller's eyes, which says nothing about its batch."""
    failed_pods: int = 0
    leaving: bool = False
    """It is being deleted."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the API server or a controller said instead of making an object."""

    reason: str
    message: str

    @classmethod
    def of(cls, message: str) -> "Refusal":
        """With the condition reason for what an admission check said."""
        reason = Reason.QUOTA_EXCEEDED if "exceeded quota" in message else Reason.POD_REFUSED
        return cls(reason.value, message)


@dataclass(frozen=True, slots=True)
class NoDistribution:
    """Why the ConfigMap that the spec refers to gives no distribution."""

    reason: Reason
    """CONTAINER_CONFIG_ERROR: it is not there, and may come."""
    message: str


@dataclass(frozen=True, slots=True)
class Shards:
    """The plan as it lies in ConfigMaps."""

    plan: Plan | None
    """None: there is none."""
    damage: str = ""
    """Shard 0 is there and yet there is no whole plan."""


@dataclass(frozen=True, slots=True)
class PlanLog:
    """What the log of a plan pod held."""

    attempt: int
    plan: Plan | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Policy:
    """A NetworkPolicy of our name."""

    uid: str
    spec: Mapping[str, Any]
    is_ours: bool = True


@dataclass(frozen=True, slots=True)
class Network:
    """What is around the pods of the run, and what keeps them in."""

    policy: Policy | None = None
    """None: there is none."""
    around: Surroundings | None = None
    """Only looked for where a policy is wanted."""
    fault: str = ""
    """Why it cannot be looked at: the operator may not."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that a decision is made from."""

    run: Run
    jobs: tuple[Job, ...] | None = None
    pods: tuple[Pod, ...] | None = None
    shards: Shards | None = None
    plan_log: PlanLog | None = None
    """Only read while there are no shards."""
    network: Network | None = None
    """Only looked at while there are batches to run."""
    no_distribution: NoDistribution | None = None
    """None: the run's spec holds or names one; a reference was resolved."""
    refusals: Mapping[str, Refusal] = field(default_factory=dict)
    """By name of the Job that was refused, or whose pod was; of a pod that cannot start; or of the NetworkPolicy."""
    model_hints: Mapping[str, ModelHint] = field(default_factory=dict)
    """By name of the pod, for a few running batch pods: what their logs said of the model at the last look."""
    first_seen: Mapping[str, datetime] = field(default_factory=dict)
    """Since when a timer's key holds (see `timers`), by the operator's own clock."""
