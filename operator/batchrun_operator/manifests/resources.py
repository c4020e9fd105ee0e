"""What pods and containers ask for, and what they may use.

While one prompt works the other sandboxes idle, so requests must not add up: the pod asks for the runner and
`promptsPerPod` sandboxes, and each container for next to nothing, with its own limits (docs/decisions/0001).
"""

from collections.abc import Sequence
from decimal import Decimal

from batchrun_api.quantities import format_bytes, format_cpu, parse_quantity
from batchrun_api.spec.sandbox import ResourceList, Resources
from batchrun_operator.manifests.meta import Manifest

IDLE_SANDBOX_BYTES = 16 * 2**20
"""What a waiting sandbox may use on top, in the pod's memory limit."""
_LEAST = {"cpu": Decimal("0.001"), "memory": Decimal(2**20)}
_FORMAT = {"cpu": format_cpu, "memory": format_bytes}


def container_resources(resources: Resources) -> Manifest:
    """A container of a pod that has pod-level resources: its own limits, requests of 1m and 1Mi."""
    limits = _wire(resources.limits)
    requests = {"cpu": "1m", "memory": "1Mi"}
    if "ephemeral-storage" in limits or resources.requests.ephemeral_storage is not None:
        # Pod-level resources know no disk, and a request that is left out defaults to the limit.
        requests["ephemeral-storage"] = "1Mi"
    return {"requests": requests, "limits": limits} if limits else {"requests": requests}


def single_container_resources(resources: Resources) -> Manifest:
    """The only container of a plan or merge pod."""
    parts = {"requests": _wire(resources.requests), "limits": _wire(resources.limits)}
    return {key: part for key, part in parts.items() if part}


def pod_resources(ours: Sequence[Resources], sandboxes: Sequence[Resources], *, working: int) -> Manifest:
    """Of the whole pod: our own containers and the `working` largest of its sandboxes, kind by kind."""
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for kind, least in _LEAST.items():
        asked = sum((_asked(item, kind) for item in ours), Decimal(0)) + _largest(
            [_asked(item, kind) for item in sandboxes], working
        )
        requests[kind] = _FORMAT[kind](max(asked, least * (len(sandboxes) + len(ours) + 1)))
        own_limits = [limit for item in ours if (limit := _amount(item.limits, kind)) is not None]
        known = [limit for item in sandboxes if (limit := _amount(item.limits, kind)) is not None]
        if len(own_limits) == len(ours) and len(known) == len(sandboxes):
            idle = IDLE_SANDBOX_BYTES * len(sandboxes) if kind == "memory" else 0
            most = sum(own_limits, Decimal(0)) + _largest(known, working) + idle
            limits[kind] = _FORMAT[kind](max(most, parse_quantity(requests[kind])))
    return {"requests": requests, "limits": limits} if limits else {"requests": requests}


def _largest(amounts: Sequence[Decimal], count: int) -> Decimal:
    return sum(sorted(amounts, reverse=True)[:count], Decimal(0))


def _asked(resources: Resources, kind: str) -> Decimal:
    """The request; as in Kubernetes, one that is left out is the limit."""
    request = _amount(resources.requests, kind)
    return request if request is not None else _amount(resources.limits, kind) or Decimal(0)


def _amount(amounts: ResourceList, kind: str) -> Decimal | None:
    text = amounts.cpu if kind == "cpu" else amounts.memory
    return None if text is None else parse_quantity(text)


def _wire(amounts: ResourceList) -> dict[str, str]:
    return {key: str(value) for key, value in amounts.to_wire().items()}
