"""When a run must be planned again: the id of its plan (docs/decisions/0003)."""

import json
from typing import Any

from batchrun_api import names
from batchrun_api.spec.run import BatchRunSpec

LIVE_FIELDS = frozenset({"numWorkers", "suspend", "ttlSecondsAfterFinished", "logging"})
"""Fields of `spec` that can be changed without planning again."""


def plan_id(uid: str, spec: dict[str, Any], retry: str) -> str:
    """Id of the plan for a spec and a retry annotation, 10 hex digits."""
    acting = {key: value for key, value in spec.items() if key not in LIVE_FIELDS}
    return names.digest(uid, json.dumps(acting, sort_keys=True, separators=(",", ":")), retry)


def spec_for_identity(spec: BatchRunSpec) -> dict[str, Any]:
    """The spec without what is at its default: an operator that learns a new field must not plan anew."""
    return spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude_none=True)
