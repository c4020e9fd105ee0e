"""Settings that are handed on to every pod of a run."""

from typing import Annotated, Any, Literal

from pydantic import Field

from batchrun_api.spec.base import ApiModel, LocalObjectRef, ObjectName

LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"

LabelKey = Annotated[str, Field(min_length=1, max_length=317)]
LabelValue = Annotated[str, Field(max_length=63, pattern=LABEL_VALUE)]


class Toleration(ApiModel):
    """As in core/v1."""

    key: Annotated[str, Field(max_length=317)] | None = None
    """Taint key. Left out with operator Exists: every key."""
    operator: Literal["Equal", "Exists"] | None = None
    """How the value is compared. Left out: Equal."""
    value: Annotated[str, Field(max_length=63)] | None = None
    """Taint value."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Taint effect. Left out: every effect."""
    toleration_seconds: Annotated[int, Field(ge=0, le=2**53)] | None = None
    """How long NoExecute is tolerated, in seconds."""


class PodTemplate(ApiModel):
    """What the pods of this run carry besides what batchrun needs; as in core/v1."""

    labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=32)] | None = None
    """More labels. Those below batchrun.dev/ are ours and cannot be set."""
    annotations: Annotated[dict[LabelKey, Annotated[str, Field(max_length=16384)]], Field(max_length=32)] | None = None
    """More annotations. Those below batchrun.dev/ are ours and cannot be set."""
    node_selector: Annotated[dict[LabelKey, LabelValue], Field(max_length=32)] | None = None
    """Labels that a node must have."""
    tolerations: Annotated[list[Toleration], Field(max_length=32)] | None = None
    """Taints that the pods tolerate."""
    affinity: dict[str, Any] | None = Field(default=None, max_length=3)
    """Affinity as in core/v1."""
    priority_class_name: ObjectName | None = None
    """Priority class of the pods."""
    runtime_class_name: ObjectName | None = None
    """Runtime class, for instance gvisor."""
    image_pull_secrets: Annotated[list[LocalObjectRef], Field(max_length=16)] | None = None
    """Secrets for private image registries."""
    service_account_name: ObjectName | None = None
    """Service account whose IAM role reaches the store. Its Kubernetes token is never mounted."""
