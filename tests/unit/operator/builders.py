"""Small inputs for the operator's tests."""

from datetime import UTC, datetime
from typing import Any

from batchrun_api.conditions import Reason
from batchrun_api.plan import Plan, PlanCounts, PlannedBatch
from batchrun_api.spec import BatchRunSpec
from batchrun_api.status import BatchRunStatus
from batchrun_operator.manifests import Subject, network_policy
from batchrun_operator.manifests.meta import Role
from batchrun_operator.manifests.network_policy import Surroundings
from batchrun_operator.reconcile.decision import Decision
from batchrun_operator.reconcile.observed import (
    Container,
    Job,
    Network,
    Observed,
    Pod,
    Policy,
    Run,
    Running,
    Shards,
    Terminated,
)
from batchrun_operator.settings import Limits, PodSettings

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
UID = "11111111-2222-3333-4444-555555555555"
PLAN_ID = "abcdef0123"
RUNNER_IMAGE = "registry.example/batchrun-runner:1"
PODS = PodSettings(runner_image=RUNNER_IMAGE)
LIMITS = Limits()


def raw_spec(**fields: Any) -> dict[str, Any]:
    """The smallest valid spec, with these fields on top."""
    base: dict[str, Any] = {
        "dataset": {"uri": "s3://data/prompts.jsonl"},
        "distribution": "terminal_only",
        "output": {"s3": {"bucket": "results", "prefix": "runs"}},
    }
    return base | fields


def spec(**fields: Any) -> BatchRunSpec:
    return BatchRunSpec.model_validate(raw_spec(**fields))


async def nowhere(_host: str) -> tuple[str, ...]:
    """A resolver that knows no name."""
    return ()


def subject(name: str = "demo", **fields: Any) -> Subject:
    return Subject(name, "ns", UID, spec(**fields), PLAN_ID, PODS)


def plan(*sizes: int, done: int = 0, images: list[str] | None = None, first: int = 0, **counts: int) -> Plan:
    """Batches of these sizes, numbered from `first`."""
    batches = [
        PlannedBatch(number=first + i, offset=100 * i, length=100, images=[-1] * size) for i, size in enumerate(sizes)
    ]
    to_run = sum(sizes)
    figures = {"total": done + to_run, "done": done, "completed": done, "to_run": to_run} | counts
    return Plan(plan_id=PLAN_ID, counts=PlanCounts(**figures), images=images or [], batches=batches)


def run(status: BatchRunStatus | None = None, **fields: Any) -> Run:
    return Run(
        name="demo",
        namespace="ns",
        uid=UID,
        generation=1,
        spec=spec(**fields),
        spec_error="",
        spec_error_reason=Reason.INVALID_SPEC,
        plan_id=PLAN_ID,
        status=status or BatchRunStatus(),
    )


def job(role: Role = Role.BATCH, batch: int | None = 0, attempt: int = 1, **fields: Any) -> Job:
    batch = batch if role is Role.BATCH else None
    name = f"{role}-{batch}-{attempt}"
    return Job(name=name, uid=f"job-{name}", role=role, plan_id=PLAN_ID, attempt=attempt, batch=batch, **fields)


def pod(
    role: Role = Role.BATCH,
    batch: int | None = 0,
    attempt: int = 1,
    runner: Container | None = None,
    sandboxes: tuple[Container, ...] = (),
    **fields: Any,
) -> Pod:
    batch = batch if role is Role.BATCH else None
    name = f"{role}-{batch}-{attempt}-pod"
    runner = runner or Container("runner", RUNNER_IMAGE, Running())
    defaults: dict[str, Any] = {"phase": "Running", "resource_version": "7"}
    return Pod(
        name=name,
        uid=f"pod-{name}",
        role=role,
        plan_id=PLAN_ID,
        attempt=attempt,
        batch=batch,
        containers=(runner, *sandboxes),
        **(defaults | fields),
    )


def ended_runner(code: int, message: str = "", *, restarted: bool = False) -> Container:
    """A runner container that ended with this code; `restarted`: and runs again."""
    end = Terminated(code, "Error" if code else "Completed", message)
    if restarted:
        return Container("runner", RUNNER_IMAGE, Running(), last=end, restarts=1)
    return Container("runner", RUNNER_IMAGE, end)


def policy_of(run_: Run, around: Surroundings) -> Policy:
    """The run's NetworkPolicy as it must be."""
    assert run_.spec is not None
    mine = Subject(run_.name, run_.namespace, run_.uid, run_.spec, run_.plan_id, PODS)
    return Policy("policy-uid", network_policy(mine, around)["spec"])


def observed(run_: Run | None = None, **fields: Any) -> Observed:
    """By default: everything known, nothing there but the NetworkPolicy that the run wants."""
    run_ = run_ or run()
    defaults: dict[str, Any] = {"jobs": (), "pods": (), "shards": Shards(None)}
    if run_.spec is not None and run_.spec.sandbox.network.is_internet_only:
        defaults["network"] = Network(policy_of(run_, Surroundings()), Surroundings())
    return Observed(run=run_, **(defaults | fields))


def actions_of(decision: Decision, kind: type[Any]) -> list[Any]:
    """The decision's actions of one kind."""
    return [action for action in decision.actions if isinstance(action, kind)]


def condition(decision: Decision, kind: str) -> tuple[str, str] | None:
    """Status and reason of a condition."""
    for item in decision.status.conditions:
        if item.type == kind:
            return item.status, item.reason
    return None


def message(decision: Decision, kind: str) -> str:
    return next(item.message for item in decision.status.conditions if item.type == kind)
