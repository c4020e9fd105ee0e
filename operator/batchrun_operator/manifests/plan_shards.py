"""The plan in ConfigMaps. Shard 0 is written last: where it is, the others are, and they are never replaced."""

import base64
import binascii
import hashlib
from collections.abc import Sequence

from batchrun_api import frames, names
from batchrun_api.plan import Plan
from batchrun_operator.manifests.meta import Manifest, Subject, metadata, run_labels

SHARD_LIMIT_BYTES = 64 * 1024
SHARD_KEY = "plan.gz"
ANNOTATION_SHARDS = "batchrun.dev/plan-shards"
"""How many shards the plan has."""
ANNOTATION_SHA256 = "batchrun.dev/plan-sha256"
"""Checksum of the whole document: shards of two plans never mix."""


class ShardsDamaged(ValueError):
    """The shards do not make one whole plan."""


def shard_name(run: str, uid: str, plan_id: str, index: int) -> str:
    """Name of one shard's ConfigMap."""
    return names.child_name(run, uid, f"plan-{plan_id}-{index}")


def plan_shards(subject: Subject, plan: Plan) -> list[Manifest]:
    """Immutable ConfigMaps in the order in which they must be created: shard 0 last."""
    document = frames.compress(plan)
    checksum = hashlib.sha256(document).hexdigest()
    chunks = [document[start : start + SHARD_LIMIT_BYTES] for start in range(0, len(document), SHARD_LIMIT_BYTES)]
    labels = run_labels(subject.name, subject.uid) | {names.LABEL_PLAN: subject.plan_id}
    annotations = {ANNOTATION_SHARDS: str(len(chunks)), ANNOTATION_SHA256: checksum}
    shards = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata(
                subject, shard_name(subject.name, subject.uid, subject.plan_id, index), labels, annotations
            ),
            "immutable": True,
            "binaryData": {SHARD_KEY: base64.b64encode(chunk).decode()},
        }
        for index, chunk in enumerate(chunks)
    ]
    return [*shards[1:], shards[0]]


def shard_count(first: Manifest) -> int:
    """How many shards there are, from shard 0. Raises ShardsDamaged."""
    try:
        return int(_annotations(first)[ANNOTATION_SHARDS])
    except (KeyError, ValueError) as error:
        raise ShardsDamaged(f"shard 0 does not say how many there are: {error!r}") from error


def read_shards(shards: Sequence[Manifest]) -> Plan:
    """The plan in the shards, given in order. Raises ShardsDamaged."""
    try:
        document = b"".join(base64.b64decode(shard["binaryData"][SHARD_KEY], validate=True) for shard in shards)
        checksum = _annotations(shards[0])[ANNOTATION_SHA256]
    except (KeyError, IndexError, binascii.Error) as error:
        raise ShardsDamaged(f"not a plan's shard: {error!r}") from error
    if hashlib.sha256(document).hexdigest() != checksum:
        raise ShardsDamaged("checksum does not match")
    try:
        return frames.decompress(document)
    except ValueError as error:
        raise ShardsDamaged(str(error)) from error


def _annotations(shard: Manifest) -> dict[str, str]:
    return shard["metadata"].get("annotations") or {}
