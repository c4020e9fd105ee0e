"""A row's own container: `user` and `resources`, within what the spec allows (docs/decisions/0014)."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from batchrun_api.own_container import AS_THE_RUN_SAYS, LEAST_LIMITS, OwnAmounts, OwnContainer, misfits
from batchrun_api.quantities import parse_quantity
from batchrun_api.spec.sandbox import QUANTITY, ResourceList
from batchrun_runner.dataset.faults import RowFault, kind_of
from batchrun_runner.dataset.own_values import SHOWN_CHARS, only_known
from batchrun_runner.text import one_line

CONTAINER_FIELDS = frozenset({"user", "resources"})
LARGEST_ID = 2**31 - 1
"""What Kubernetes takes."""

_USER = re.compile(r"[0-9]{1,10}(:[0-9]{1,10})?", re.ASCII)
_QUANTITY = re.compile(QUANTITY)
_LONGEST_QUANTITY_CHARS = 32
_NAMES = {"cpu": "cpu", "memory": "memory", "ephemeral-storage": "ephemeral_storage"}
_MOST = {"cpu": "10000", "memory": "1Pi", "ephemeral_storage": "1Pi"}
"""Where the spec has no maximum: beyond, it is a slip of the pen."""


def own_container(row: Mapping[str, Any], largest: ResourceList) -> OwnContainer:
    """What a row says of its container; a key that is null is not set. Raises RowFault."""
    user = "" if row.get("user") is None else _user(row["user"])
    limits, requests = OwnAmounts(), OwnAmounts()
    if row.get("resources") is not None:
        limits, requests = _resources(row["resources"], largest)
    made = OwnContainer(user=user, limits=limits, requests=requests)
    return AS_THE_RUN_SAYS if made == AS_THE_RUN_SAYS else made


def _user(value: Any) -> str:
    if not isinstance(value, int | str) or isinstance(value, bool):
        raise RowFault(f"`user` is {kind_of(value, article=True)}, not a user", 'write 1000 or "1000:1000"')
    text = str(value)
    shown = one_line(text, SHOWN_CHARS)
    if not _USER.fullmatch(text):
        raise RowFault(
            f"`user` {shown!r} is no number", 'write "uid" or "uid:gid" in numbers: Kubernetes takes no user names'
        )
    ids = [int(part) for part in text.split(":")]
    if max(ids) > LARGEST_ID:
        raise RowFault(f"`user` {shown!r} is above {LARGEST_ID}", "give a smaller number")
    return ":".join(map(str, ids))


def _resources(value: Any, largest: ResourceList) -> tuple[OwnAmounts, OwnAmounts]:
    shape = 'write {"limits": {"memory": "2Gi"}}'
    if not isinstance(value, dict):
        raise RowFault(f"`resources` is {kind_of(value, article=True)}, not an object", shape)
    only_known(value, "resources", ("limits", "requests"))
    limits = _amounts(value.get("limits"), "limits", largest)
    requests = _amounts(value.get("requests"), "requests", largest)
    for kind, limit, request in misfits(limits, requests):
        name = kind.replace("_", "-")
        if request is None:
            place = f"`resources.limits.{name}` is {limit}"
            raise RowFault(f"{place}, less than {LEAST_LIMITS[kind]}, which a sandbox needs", "raise it")
        raise RowFault(f"`resources.requests.{name}` is {request}, more than its limit of {limit}", "lower it")
    return limits, requests


def _amounts(value: Any, part: str, largest: ResourceList) -> OwnAmounts:
    if value is None:
        return OwnAmounts()
    place = f"resources.{part}"
    if not isinstance(value, dict):
        raise RowFault(f"`{place}` is {kind_of(value, article=True)}, not an object", 'write {"memory": "2Gi"}')
    only_known(value, place, tuple(_NAMES))
    found = {
        _NAMES[name]: _amount(amount, f"{place}.{name}", _NAMES[name], largest)
        for name, amount in value.items()
        if amount is not None
    }
    return OwnAmounts(**found)


def _amount(value: Any, place: str, kind: str, largest: ResourceList) -> str | int:
    amount = _quantity(value, place)
    most: str | int | None = getattr(largest, kind)
    named = most is not None
    most = most if most is not None else _MOST[kind]
    if amount > parse_quantity(most):
        where = " of sandbox.maxResources, or of sandbox.resources.limits without it" if named else ""
        fix = "lower it or raise sandbox.maxResources" if named else "lower it"
        raise RowFault(f"`{place}` is {value}, more than {most}{where}", fix)
    given: str | int = value
    return given


def _quantity(value: Any, place: str) -> Decimal:
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    is_text = isinstance(value, str) and len(value) <= _LONGEST_QUANTITY_CHARS and _QUANTITY.fullmatch(value)
    if not (is_number or is_text):
        is_shown = isinstance(value, str | int | float)
        shown = repr(one_line(str(value), SHOWN_CHARS)) if is_shown else kind_of(value, article=True)
        raise RowFault(f"`{place}` is {shown}, which is no quantity", 'write it as in Kubernetes: "500m", "2Gi"')
    return parse_quantity(value)
