"""Who may write below an output location: the first run that came, told by an object of its own.

PlanRefused              the run cannot start as it is; nothing was changed, the message names place and fix
├── OutputInUse          another BatchRun owns the place
├── OutputNotEmpty       results lie there and resumePolicy is Never
└── ConfigChanged        another configuration made what is stored, and resumePolicy is not Force
"""

from typing import Any

import orjson

from batchrun_api.conditions import Reason
from batchrun_runner.ledger import layout
from batchrun_runner.settings import Owner
from batchrun_runner.storage.errors import NotFound, PreconditionFailed
from batchrun_runner.storage.store import ObjectStore, put_version

_ATTEMPTS = 5


class PlanRefused(Exception):
    """Base of the refusals."""

    reason: Reason = Reason.INTERNAL


class OutputInUse(PlanRefused):
    """Two BatchRuns with one output location."""

    reason = Reason.OUTPUT_IN_USE


class OutputNotEmpty(PlanRefused):
    """`resumePolicy: Never` over results."""

    reason = Reason.OUTPUT_NOT_EMPTY


class ConfigChanged(PlanRefused):
    """Resume over another configuration."""

    reason = Reason.CONFIG_CHANGED


def claim(store: ObjectStore, owner: Owner) -> None:
    """Own the place, or find that we do. A re-created BatchRun of the same namespace and name takes over.

    On one machine (no UID) nobody is asked. Raises OutputInUse and StorageError.
    """
    if not owner.uid:
        return
    ours = orjson.dumps({"uid": owner.uid, "namespace": owner.namespace, "name": owner.name})
    for _ in range(_ATTEMPTS):
        try:
            stored = store.get(layout.OWNER)
        except NotFound:
            stored = None
        if stored is not None and _is_ours(store, stored.body, owner):
            return
        try:
            put_version(store, layout.OWNER, ours, replaces=stored.etag if stored else None)
        except PreconditionFailed:
            continue
        # Read again: on a store without conditions the last of two writers is the owner.
    raise OutputInUse(f"{store.place} is being claimed by another BatchRun; give one of them another runName or prefix")


def _is_ours(store: ObjectStore, body: bytes, owner: Owner) -> bool:
    """False: it was ours under an earlier UID. Raises OutputInUse."""
    try:
        document: dict[str, Any] = orjson.loads(body)
        uid, namespace, name = (str(document[field]) for field in ("uid", "namespace", "name"))
    except (ValueError, TypeError, KeyError) as error:
        raise OutputInUse(
            f"{store.place}/{layout.OWNER} cannot be read; delete it if no other BatchRun writes there"
        ) from error
    if uid == owner.uid:
        return True
    if (namespace, name) == (owner.namespace, owner.name):
        return False
    raise OutputInUse(
        f"{store.place} belongs to BatchRun {name} in namespace {namespace}; give this one another runName or prefix, "
        f"or delete {layout.OWNER} there if that BatchRun is gone for good"
    )
