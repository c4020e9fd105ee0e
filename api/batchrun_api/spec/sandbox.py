"""The container in which one prompt's commands run."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, WithJsonSchema

from batchrun_api.spec.base import ApiModel, ImageName

QUANTITY = r"^[0-9]+(\.[0-9]+)?(Ki|[EPTGM]i?|k|m)?$"

Quantity = Annotated[
    Annotated[str, Field(max_length=32, pattern=QUANTITY), Tag("text")] | Annotated[int, Field(ge=0), Tag("number")],
    Discriminator(lambda value: "number" if isinstance(value, int) else "text"),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": QUANTITY,
            "maxLength": 32,
            "minimum": 0,
        }
    ),
]


class ResourceList(ApiModel):
    """Amounts of compute resources."""

    cpu: Quantity | None = None
    """CPU in cores, for instance 250m."""
    memory: Quantity | None = None
    """Memory in bytes, for instance 512Mi."""
    ephemeral_storage: Annotated[Quantity | None, Field(alias="ephemeral-storage")] = None
    """Disk space in bytes, for instance 2Gi."""


class Resources(ApiModel):
    """What one container asks for and what it may use."""

    requests: ResourceList = Field(default_factory=ResourceList)
    """What the scheduler keeps free. Counted for `promptsPerPod` sandboxes at a time, not for all of a batch."""
    limits: ResourceList = Field(default_factory=ResourceList)
    """What the container may use at most."""


SANDBOX_RESOURCES = Resources(
    requests=ResourceList(cpu="100m", memory="128Mi"), limits=ResourceList(cpu="1", memory="1Gi")
)


class Sandbox(ApiModel):
    """Defaults for all sandboxes; a row of the data set overrides `image` and the working directory."""

    image: ImageName = "docker.io/library/python:3.13-slim"
    """Image for prompts that name none."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When the image is pulled. Left out: Kubernetes' own rule."""
    image_pull_timeout_seconds: Annotated[int, Field(ge=1, le=86400)] = 300
    """How long a failing pull may be tried again before that prompt fails with ImageUnavailable."""
    resources: Resources = SANDBOX_RESOURCES
    """Requests and limits of one sandbox."""
    command_timeout_seconds: Annotated[int, Field(ge=1, le=86400)] = 120
    """Longest time of one command in seconds; also the cap for what the model asks for."""
