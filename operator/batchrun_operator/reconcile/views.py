"""From Kubernetes' JSON to what is observed. Tolerates whatever is missing: these objects pass through other hands."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from batchrun_api import names
from batchrun_api.checks import spec_problems
from batchrun_api.conditions import Reason
from batchrun_api.spec.run import BatchRunSpec
from batchrun_api.status import BatchRunStatus
from batchrun_operator.manifests.meta import Role
from batchrun_operator.reconcile.identity import plan_id, spec_for_identity
from batchrun_operator.reconcile.observed import (
    Container,
    ContainerState,
    Job,
    Pod,
    Run,
    Running,
    Terminated,
    Waiting,
)
from batchrun_operator.reconcile.validity import explain

Raw = Mapping[str, Any]
_TEXT_LIMIT_CHARS = 2000


def read_run(raw: Raw) -> Run:
    """The BatchRun."""
    meta, spec_raw = raw["metadata"], raw.get("spec") or {}
    spec, error, reason = _read_spec(spec_raw)
    retry = (meta.get("annotations") or {}).get(names.ANNOTATION_RETRY, "")
    return Run(
        name=meta["name"],
        namespace=meta.get("namespace", ""),
        uid=meta["uid"],
        generation=meta.get("generation", 0),
        spec=spec,
        spec_error=error,
        spec_error_reason=reason,
        plan_id=plan_id(meta["uid"], spec_for_identity(spec) if spec else dict(spec_raw), retry),
        status=_read_status(raw.get("status") or {}),
        leaving="deletionTimestamp" in meta,
    )


def _read_spec(raw: Raw) -> tuple[BatchRunSpec | None, str, Reason]:
    try:
        spec = BatchRunSpec.model_validate(raw)
    except ValidationError as error:
        return None, explain(error, raw), Reason.INVALID_SPEC
    found = spec_problems(spec, for_cluster=True)
    if not found:
        return spec, "", Reason.INVALID_SPEC
    text = "; ".join(": ".join([".".join(["spec", *problem.path]), problem.message]) for problem in found)
    return None, text, found[0].reason


def _read_status(raw: Raw) -> BatchRunStatus:
    """A status that cannot be read (of another version) is none: all of it is found again from Jobs and store."""
    try:
        return BatchRunStatus.model_validate(raw)
    except ValidationError:
        return BatchRunStatus()


def read_jobs(items: Iterable[Raw]) -> tuple[Job, ...]:
    """Our Jobs among `items`."""
    return tuple(job for job in map(_read_job, items) if job is not None)


def read_pods(items: Iterable[Raw]) -> tuple[Pod, ...]:
    """Our pods among `items`."""
    return tuple(pod for pod in map(_read_pod, items) if pod is not None)


def _read_labels(meta: Raw) -> dict[str, Any] | None:
    """Role, plan, batch and attempt; None for an object that carries no such labels."""
    labels = meta.get("labels") or {}
    try:
        role = Role(labels[names.LABEL_ROLE])
        batch = int(labels[names.LABEL_BATCH]) if role is Role.BATCH else None
        attempt = int(labels[names.LABEL_ATTEMPT])
        return {"role": role, "plan_id": labels[names.LABEL_PLAN], "batch": batch, "attempt": attempt}
    except (KeyError, ValueError):
        return None


def _read_job(raw: Raw) -> Job | None:
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    labels = _read_labels(meta)
    if labels is None:
        return None
    conditions = {item.get("type"): item.get("status") for item in status.get("conditions") or ()}
    return Job(
        name=meta["name"],
        uid=meta["uid"],
        suspended=bool(spec.get("suspend")) or "Suspended" in conditions,
        finished="True" in (conditions.get("Complete"), conditions.get("Failed")),
        failed_pods=status.get("failed") or 0,
        leaving="deletionTimestamp" in meta,
        **labels,
    )


def _read_pod(raw: Raw) -> Pod | None:
    meta, status = raw["metadata"], raw.get("status") or {}
    labels = _read_labels(meta)
    if labels is None:
        return None
    images = {item["name"]: item.get("image", "") for item in raw["spec"].get("containers") or ()}
    statuses = {item["name"]: item for item in status.get("containerStatuses") or ()}
    starting = {item["name"]: item for item in status.get("initContainerStatuses") or ()}
    return Pod(
        name=meta["name"],
        uid=meta["uid"],
        resource_version=meta.get("resourceVersion", ""),
        phase=status.get("phase", "Pending"),
        leaving="deletionTimestamp" in meta,
        unschedulable=_unschedulable(status),
        end=status.get("reason", "") if status.get("phase") == "Failed" else "",
        eviction=_eviction(status),
        signals=(meta.get("annotations") or {}).get(names.ANNOTATION_SIGNALS, ""),
        containers=tuple(_read_container(name, image, statuses.get(name) or {}) for name, image in images.items()),
        install=_read_starting(starting.get(names.INSTALL_CONTAINER)),
        browser=_read_starting(starting.get(names.BROWSER_CONTAINER)),
        **labels,
    )


def _eviction(status: Raw) -> str:
    """The status has the words when all containers have ended; where a node runs short, a condition has them before."""
    words = ""
    if status.get("reason") == "Evicted":
        words = str(status.get("message") or "Evicted")
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("reason") == "TerminationByKubelet":
            words = words or str(condition.get("message") or "Evicted")
    return words.strip()[:_TEXT_LIMIT_CHARS]


def _unschedulable(status: Raw) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return str(condition.get("message") or condition.get("reason") or "no node")[:_TEXT_LIMIT_CHARS]
    return ""


def _read_starting(status: Raw | None) -> Container | None:
    """One of the containers that come before the others."""
    return _read_container(status["name"], status.get("image", ""), status) if status else None


def _read_container(name: str, image: str, status: Raw) -> Container:
    last = (status.get("lastState") or {}).get("terminated")
    return Container(
        name=name,
        image=image,
        state=_read_state(status.get("state") or {}),
        last=_read_terminated(last) if last else None,
        restarts=status.get("restartCount") or 0,
    )


def _read_state(state: Raw) -> ContainerState:
    if "terminated" in state:
        return _read_terminated(state["terminated"])
    if "running" in state:
        return Running()
    waiting = state.get("waiting") or {}
    return Waiting(waiting.get("reason", ""), str(waiting.get("message", ""))[:_TEXT_LIMIT_CHARS])


def _read_terminated(raw: Raw) -> Terminated:
    return Terminated(raw.get("exitCode", -1), raw.get("reason", ""), str(raw.get("message", "")))
