"""Metadata that every child of a run carries: name, owner, labels, annotations."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from batchrun_api import names
from batchrun_api.spec.run import API_GROUP, API_VERSION, KIND, BatchRunSpec
from batchrun_operator.settings import PodSettings

Manifest = dict[str, Any]

LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY = "batchrun"
OWN_PREFIX = "batchrun.dev/"


class Role(StrEnum):
    """What a Job of a run does; the value of its role label."""

    PLAN = "plan"
    BATCH = "batch"
    MERGE = "merge"


@dataclass(frozen=True, slots=True)
class Subject:
    """The run that manifests are made for."""

    name: str
    namespace: str
    uid: str
    spec: BatchRunSpec
    plan_id: str
    pods: PodSettings

    def child_name(self, suffix: str) -> str:
        """Deterministic name of a child object, at most 63 characters."""
        return names.child_name(self.name, self.uid, suffix)


def run_labels(name: str, uid: str) -> dict[str, str]:
    """Labels by which all objects of a run are found."""
    return {
        LABEL_MANAGED_BY: MANAGED_BY,
        names.LABEL_RUN: names.shortened(name),
        names.LABEL_RUN_UID: uid,
    }


def step_labels(subject: Subject, role: Role, attempt: int, batch: int | None = None) -> dict[str, str]:
    """Labels of one attempt's Job and pods."""
    labels = run_labels(subject.name, subject.uid)
    labels |= {
        names.LABEL_ROLE: str(role),
        names.LABEL_PLAN: subject.plan_id,
        names.LABEL_ATTEMPT: str(attempt),
    }
    return labels if batch is None else labels | {names.LABEL_BATCH: str(batch)}


def metadata(
    subject: Subject, name: str, labels: dict[str, str], annotations: dict[str, str] | None = None
) -> Manifest:
    """Metadata of a child that goes when the run goes."""
    return {
        "name": name,
        "namespace": subject.namespace,
        "labels": labels,
        "annotations": {names.ANNOTATION_RUN: subject.name} | (annotations or {}),
        "ownerReferences": [owner_reference(subject.name, subject.uid)],
    }


def is_owned_by(found: Manifest, uid: str) -> bool:
    """Whether an object of the cluster belongs to the run of that UID."""
    owners = found["metadata"].get("ownerReferences") or ()
    return any(owner.get("uid") == uid for owner in owners)


def owner_reference(name: str, uid: str) -> Manifest:
    """The run as controller. It does not block the owner's deletion: that would need a further permission."""
    return {
        "apiVersion": f"{API_GROUP}/{API_VERSION}",
        "kind": KIND,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }


def foreign(entries: dict[str, str] | None) -> dict[str, str]:
    """A user's labels or annotations without those that are ours."""
    return {key: value for key, value in (entries or {}).items() if not key.startswith(OWN_PREFIX)}
