"""What a row says of its own container besides the image: user and resources. The plan carries it to the operator."""

from collections.abc import Iterator
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from batchrun_api.quantities import parse_quantity
from batchrun_api.spec.sandbox import Quantity, ResourceList, Resources

LEAST_LIMITS = {"cpu": "10m", "memory": "16Mi", "ephemeral_storage": "1Mi"}
"""Below, the kernel or the helper cannot work with it, or the API server refuses the whole Job."""
KINDS = ("cpu", "memory", "ephemeral_storage")
"""Of a ResourceList, by the names of its fields."""


class OwnAmounts(BaseModel):
    """A ResourceList that can be a key of a dict."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    cpu: Quantity | None = None
    memory: Quantity | None = None
    ephemeral_storage: Quantity | None = None


class OwnContainer(BaseModel):
    """Empty and None: as the run says."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    user: Annotated[str, Field(pattern=r"^([0-9]+(:[0-9]+)?)?$")] = ""
    """`uid` or `uid:gid`; empty: the image's own."""
    requests: OwnAmounts = OwnAmounts()
    limits: OwnAmounts = OwnAmounts()

    @property
    def user_ids(self) -> tuple[int | None, int | None]:
        """User and group in numbers; None: the image's own."""
        user, _, group = self.user.partition(":")
        return (int(user) if user else None, int(group) if group else None)

    def over(self, resources: Resources) -> Resources:
        """These amounts in place of the run's, kind by kind; the run's request gives way to a lower limit."""
        limits = {kind: _first(self.limits, resources.limits, kind) for kind in KINDS}
        requests = {kind: _first(self.requests, resources.requests, kind) for kind in KINDS}
        for kind, limit in limits.items():
            request = requests[kind]
            if limit is not None and request is not None and parse_quantity(request) > parse_quantity(limit):
                requests[kind] = limit
        return Resources(requests=ResourceList(**requests), limits=ResourceList(**limits))


AS_THE_RUN_SAYS = OwnContainer()


class Misfit(NamedTuple):
    """An amount with which no sandbox runs."""

    kind: str
    limit: str | int
    request: str | int | None
    """Above the limit; None: the limit itself is too low."""


def misfits(limits: ResourceList | OwnAmounts, requests: ResourceList | OwnAmounts) -> Iterator[Misfit]:
    """Limits below LEAST_LIMITS, and requests above their limit, in the order of KINDS."""
    for kind in KINDS:
        limit, request = getattr(limits, kind), getattr(requests, kind)
        if limit is None:
            continue
        if parse_quantity(limit) < parse_quantity(LEAST_LIMITS[kind]):
            yield Misfit(kind, limit, None)
        elif request is not None and parse_quantity(request) > parse_quantity(limit):
            yield Misfit(kind, limit, request)


def _first(own: OwnAmounts, of_run: ResourceList, kind: str) -> str | int | None:
    amount: str | int | None = getattr(own, kind)
    return amount if amount is not None else getattr(of_run, kind)
