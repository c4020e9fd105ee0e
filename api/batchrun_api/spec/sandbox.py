"""The container in which one prompt's commands run."""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, WithJsonSchema

from batchrun_api.image_names import with_prefix_replaced
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


_COMPONENT = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
IMAGE_PREFIX = (
    r"^(localhost|[A-Za-z0-9][A-Za-z0-9-]*(\.[A-Za-z0-9][A-Za-z0-9-]*)+|[A-Za-z0-9][A-Za-z0-9.-]*:[0-9]+)"
    rf"(/{_COMPONENT})*$"
)
ImagePrefix = Annotated[str, Field(min_length=1, max_length=200, pattern=IMAGE_PREFIX)]


class ImageRewrite(ApiModel):
    """Images below one prefix are asked for below another."""

    from_: Annotated[ImagePrefix, Field(alias="from")]
    """First components of the whole name, with the registry: docker.io/library covers python:3.13-slim."""
    to: ImagePrefix
    """What stands in their place, with the registry."""


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


NetworkMode = Literal["Open", "Denied", "InternetOnly"]
CommandNetwork = Literal["Open", "Denied"]
"""What the helper in a sandbox has to do with it: filter the sockets of commands, or leave them alone."""


PodSecurity = Literal["Baseline", "Restricted"]


class Network(ApiModel):
    """What commands may reach."""

    mode: NetworkMode | None = None
    """InternetOnly (left out: on a cluster): no private, link-local or cluster address. Denied: unix sockets only, so
    no loopback servers either. Open (left out: on one machine): whatever pod or machine can reach."""

    @property
    def for_commands(self) -> CommandNetwork:
        """The part that is done inside the sandbox."""
        return "Denied" if self.mode == "Denied" else "Open"

    @property
    def is_internet_only(self) -> bool:
        """Whether a pod of the run has no way to private addresses. On one machine nothing asks."""
        return self.mode in (None, "InternetOnly")


class Sandbox(ApiModel):
    """Defaults for all sandboxes; a row of the data set overrides `image` and the working directory."""

    image: ImageName = "docker.io/library/python:3.13-slim"
    """Image for prompts that name none."""
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When the image is pulled. Left out: Kubernetes' own rule."""
    image_rewrite: Annotated[list[ImageRewrite], Field(max_length=32)] = Field(default_factory=list)
    """Mirrors: where each image is asked for. The first rule that matches counts; rows keep the name as written."""
    image_pull_timeout_seconds: Annotated[int, Field(ge=1, le=86400)] = 300
    """How long a failing pull may be tried again before that prompt fails with ImageUnavailable."""
    resources: Resources = SANDBOX_RESOURCES
    """Requests and limits of one sandbox. A row may set its own, within maxResources."""
    max_resources: ResourceList = Field(default_factory=ResourceList)
    """The most that a row may ask for. Kinds that are left out: the limits in resources."""
    max_processes: Annotated[int, Field(ge=16, le=32768)] = 512
    """Processes of one sandbox at a time; the youngest above it are killed, and the model is told."""
    network: Network = Field(default_factory=Network)
    """The network of a sandbox's commands."""
    pod_security: PodSecurity = "Baseline"
    """Pod Security Standard that sandboxes meet. Restricted: without capabilities, and images must not run as root."""
    command_timeout_seconds: Annotated[int, Field(ge=1, le=86400)] = 120
    """Longest time of one command in seconds; also the cap for what the model asks for."""

    @property
    def largest(self) -> ResourceList:
        """The most that a row may ask for; None: as much as it likes."""
        most, limits = self.max_resources, self.resources.limits
        return ResourceList(
            cpu=most.cpu if most.cpu is not None else limits.cpu,
            memory=most.memory if most.memory is not None else limits.memory,
            ephemeral_storage=(
                most.ephemeral_storage if most.ephemeral_storage is not None else limits.ephemeral_storage
            ),
        )

    def rewritten(self, image: str) -> str:
        """The name by which `image` is asked for: that of the first rule that matches, else as it is."""
        found = (with_prefix_replaced(image, rule.from_, rule.to) for rule in self.image_rewrite)
        return next((name for name in found if name is not None), image)
