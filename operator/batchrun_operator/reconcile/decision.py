"""What a pass wants done. Every action may be asked for again, so each is idempotent."""

from dataclasses import dataclass
from typing import Literal

from batchrun_api.status import BatchRunStatus
from batchrun_operator.manifests.meta import Manifest


@dataclass(frozen=True, slots=True)
class EnsureConfigMap:
    """Create it unless it is there. One of the same name with another content hash is replaced."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class EnsureJob:
    """Create it unless it is there and ours."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """Delete this very Job; its pods get SIGTERM and 30 s."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class DeletePod:
    """Delete this very pod."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class DeleteConfigMap:
    """Delete a ConfigMap of ours."""

    name: str


@dataclass(frozen=True, slots=True)
class PruneConfigMaps:
    """Delete the run's ConfigMaps of all plans but one."""

    keep_plan_id: str


@dataclass(frozen=True, slots=True)
class EnsureNetworkPolicy:
    """Create it, or give the one that is there this spec. Nothing after it is done where it is refused."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class DeleteNetworkPolicy:
    """Delete this very NetworkPolicy."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class PatchPod:
    """Change a pod's signals annotation, and images of its containers, if it is still at this version."""

    name: str
    resource_version: str
    signals: str
    images: tuple[tuple[str, str], ...] = ()
    """Container name and new image."""


Action = (
    EnsureConfigMap
    | EnsureJob
    | EnsureNetworkPolicy
    | DeleteJob
    | DeletePod
    | DeleteConfigMap
    | DeleteNetworkPolicy
    | PruneConfigMaps
    | PatchPod
)


@dataclass(frozen=True, slots=True)
class Event:
    """A step that `kubectl describe` shows."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Decision:
    """Written in this order: status, then actions, then events."""

    status: BatchRunStatus
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    settled: bool = False
    """Nothing more will happen unless the BatchRun changes."""
    again_after_seconds: float | None = None
    """Look again after this time even if nothing happens; None: when something happens."""
