"""What pods and containers ask for, and what they may use.

While one prompt works the other sandboxes idle, so requests must not add up: the pod asks for the runner and
`promptsPerPod` sandboxes, and each container for next to nothing, with its own limits (docs/decisions/0001).
"""

from decimal import Decimal

from batchrun_api.spec.sandbox import ResourceList, Resources
from batchrun_operator.manifests.meta import Manifest
from batchrun_operator.manifests.quantities import format_bytes, format_cpu, parse_quantity

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


def pod_resources(runner: Resources, sandbox: Resources, *, containers: int, working: int) -> Manifest:
    """Of the whole pod: the runner and `working` sandboxes of `containers`."""
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for kind, least in _LEAST.items():
        own, each = _asked(runner, kind), _asked(sandbox, kind)
        requests[kind] = _FORMAT[kind](max(own + working * each, least * (containers + 2)))
        own_limit, each_limit = _amount(runner.limits, kind), _amount(sandbox.limits, kind)
        if own_limit is not None and each_limit is not None:
            idle = IDLE_SANDBOX_BYTES * containers if kind == "memory" else 0
            limits[kind] = _FORMAT[kind](max(own_limit + working * each_limit + idle, parse_quantity(requests[kind])))
    return {"requests": requests, "limits": limits} if limits else {"requests": requests}


def _asked(resources: Resources, kind: str) -> Decimal:
    """The request; as in Kubernetes, one that is left out is the limit."""
    request = _amount(resources.requests, kind)
    return request if request is not None else _amount(resources.limits, kind) or Decimal(0)


def _amount(amounts: ResourceList, kind: str) -> Decimal | None:
    text = amounts.cpu if kind == "cpu" else amounts.memory
    return None if text is None else parse_quantity(text)


def _wire(amounts: ResourceList) -> dict[str, str]:
    return {key: str(value) for key, value in amounts.to_wire().items()}
