"""One pass at work: what is observed, and the status and actions as they grow. Never leaves `decide`."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

from batchrun_api.conditions import ConditionType, Phase, Reason
from batchrun_api.plan import Plan
from batchrun_api.spec.run import BatchRunSpec
from batchrun_api.status import PlanStatus
from batchrun_operator.manifests.meta import Role, Subject
from batchrun_operator.reconcile import conditions
from batchrun_operator.reconcile.attempts import Clock
from batchrun_operator.reconcile.decision import Action, DeleteJob, Event
from batchrun_operator.reconcile.observed import Job, Observed, Pod
from batchrun_operator.settings import Limits, PodSettings


class Worksheet:
    """Policies write on it, one after the other."""

    def __init__(self, observed: Observed, now: datetime, pods: PodSettings, limits: Limits) -> None:
        self.observed = observed
        self.run = observed.run
        self.now = now
        self.limits = limits
        self.pod_settings = pods
        self.clock = Clock(now, observed.first_seen, limits)
        self.status = observed.run.status.model_copy(update={"observed_generation": observed.run.generation})
        self.plan: Plan | None = None
        """Set once it is known and announced."""
        self.actions: list[Action] = []
        self.events: list[Event] = []
        self.again_after_seconds: float | None = None
        self.settled = False

    @property
    def spec(self) -> BatchRunSpec:
        """The valid spec; policies after `refuse_invalid_spec` may ask for it."""
        if self.run.spec is None:
            raise AssertionError("the spec is not valid, and that was not looked at")
        return self.run.spec

    @property
    def subject(self) -> Subject:
        """The run as manifests know it."""
        run = self.run
        return Subject(run.name, run.namespace, run.uid, self.spec, run.plan_id, self.pod_settings)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """Known Jobs; only after `wait_for_knowledge`."""
        return self.observed.jobs or ()

    @property
    def pods(self) -> tuple[Pod, ...]:
        """Known pods; only after `wait_for_knowledge`."""
        return self.observed.pods or ()

    def step(self, role: Role, batch: int | None = None) -> tuple[list[Job], list[Pod]]:
        """Jobs and pods of one step of the current plan."""
        plan_id = self.run.plan_id
        jobs = [job for job in self.jobs if job.plan_id == plan_id and job.role is role and job.batch == batch]
        pods = [pod for pod in self.pods if pod.plan_id == plan_id and pod.role is role and pod.batch == batch]
        return jobs, pods

    @property
    def plan_status(self) -> PlanStatus:
        """What is recorded of the current plan; always there after `begin_plan`."""
        return self.status.plan or PlanStatus(id=self.run.plan_id)

    def update(self, **fields: Any) -> None:
        """Set fields of the status."""
        self.status = self.status.model_copy(update=fields)

    def update_plan(self, **fields: Any) -> None:
        """Set fields of `status.plan`."""
        self.update(plan=self.plan_status.model_copy(update=fields))

    def condition(self, kind: ConditionType, value: bool, reason: Reason, message: str) -> None:
        """Set a condition."""
        self.status = conditions.with_condition(self.status, self.now, kind, value, reason, message)

    def progressing(self, value: bool, reason: Reason, message: str, phase: Phase) -> None:
        """What goes on, or what it waits for."""
        self.condition(ConditionType.PROGRESSING, value, reason, message)
        self.update(phase=phase.value)

    def event(self, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Tell of a step that no condition shows."""
        self.events.append(Event(kind, reason, conditions.shortened_text(message, 1000)))

    def look_again(self, seconds: float) -> None:
        """Ask for another pass after this time at the latest."""
        self.again_after_seconds = min(seconds, self.again_after_seconds or seconds)

    def patient(self, key: str, limit_seconds: float) -> bool:
        """True: the timer's limit is not reached; then the pass after it is asked for."""
        left = limit_seconds - self.clock.age_seconds(key)
        if left > 0:
            self.look_again(left)
        return left > 0

    def delete_jobs(self, jobs: Iterable[Job]) -> None:
        """Delete those that are not being deleted already."""
        self.actions += [DeleteJob(job.name, job.uid) for job in jobs if not job.leaving]

    def attempts_lost(self, key: str) -> int:
        """Attempts of a step that are over: `plan`, `merge` or a batch number."""
        return self.plan_status.attempts.get(key, 0)
