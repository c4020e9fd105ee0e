"""Act: status first, then actions, then events. Everything may be done twice; nothing is done to what is not ours."""

import hashlib
from dataclasses import dataclass
from datetime import datetime

import structlog

from batchrun_api import names
from batchrun_api.conditions import Reason
from batchrun_operator.kube import AlreadyExists, Conflict, KubeError, NotFound, Refused
from batchrun_operator.manifests.meta import LABEL_MANAGED_BY, MANAGED_BY, Manifest, is_owned_by
from batchrun_operator.manifests.plan_shards import ANNOTATION_SHA256
from batchrun_operator.memory import RunMemory
from batchrun_operator.ports import Api, Json
from batchrun_operator.reconcile.conditions import timestamp
from batchrun_operator.reconcile.decision import (
    Action,
    Decision,
    DeleteConfigMap,
    DeleteJob,
    DeleteNetworkPolicy,
    DeletePod,
    EnsureConfigMap,
    EnsureJob,
    EnsureNetworkPolicy,
    Event,
    PatchPod,
    PruneConfigMaps,
)
from batchrun_operator.reconcile.observed import Refusal

log = structlog.get_logger()

COMPONENT = "batchrun-operator"


@dataclass(frozen=True, slots=True)
class Applied:
    """What came of a decision."""

    wrote_status: bool = False
    refused: bool = False
    """Something was refused that may be allowed later."""


class NotOurs(KubeError):
    """An object of our name belongs to somebody else."""


async def apply(api: Api, raw_run: Json, decision: Decision, memory: RunMemory, now: datetime) -> Applied:
    """Do what was decided. Raises KubeError, Conflict above all: then the next pass starts from what is there."""
    hand = _Hand(api, raw_run, memory)
    wrote = await hand.write_status(decision)
    for action in decision.actions:
        await hand.act(action)
    for event in decision.events:
        await hand.tell(event, now)
    return Applied(wrote, hand.refused)


class _Hand:
    """One pass's writes."""

    def __init__(self, api: Api, raw_run: Json, memory: RunMemory) -> None:
        self._api = api
        self._raw = raw_run
        self._namespace: str = raw_run["metadata"]["namespace"]
        self._uid: str = raw_run["metadata"]["uid"]
        self._memory = memory
        self.refused = False

    async def write_status(self, decision: Decision) -> bool:
        """Only when something changed."""
        status = decision.status.to_wire()
        if status == (self._raw.get("status") or {}):
            return False
        written = await self._api.replace_run_status(self._raw | {"status": status})
        self._memory.written_version = written["metadata"]["resourceVersion"]
        return True

    async def act(self, action: Action) -> None:
        """One action."""
        match action:
            case EnsureJob(manifest):
                await self._ensure_job(manifest)
            case EnsureConfigMap(manifest):
                await self._ensure_config_map(manifest)
            case EnsureNetworkPolicy(manifest):
                await self._ensure_policy(manifest)
            case DeleteNetworkPolicy(name, uid):
                await self._delete("networkpolicies", name, uid)
            case DeleteJob(name, uid):
                await self._delete("jobs", name, uid)
            case DeletePod(name, uid):
                await self._delete("pods", name, uid)
            case DeleteConfigMap(name):
                self._forget_plan()
                await self._delete_own_config_map(name)
            case PruneConfigMaps(plan_id):
                await self._prune_config_maps(plan_id)
            case PatchPod():
                await self._patch_pod(action)

    async def _ensure_job(self, manifest: Manifest) -> None:
        name = manifest["metadata"]["name"]
        try:
            await self._api.create("jobs", manifest)
        except AlreadyExists:
            if not self._is_ours(await self._api.get("jobs", self._namespace, name)):
                self._refuse(name, Refusal(Reason.POD_REFUSED.value, f"a Job named {name} exists and is not ours"))
                return
        except Refused as error:
            self._refuse(name, Refusal.of(error.message))
            return
        self._memory.refusals.pop(name, None)

    async def _ensure_policy(self, manifest: Manifest) -> None:
        """Raises where it is refused: the Jobs that come after it must not be made without it."""
        name = manifest["metadata"]["name"]
        try:
            await self._write_policy(name, manifest)
        except (Refused, NotOurs) as error:
            self._refuse(name, Refusal(Reason.NETWORK_NOT_ENFORCED.value, error.message))
            raise
        self._memory.refusals.pop(name, None)

    async def _write_policy(self, name: str, manifest: Manifest) -> None:
        try:
            await self._api.create("networkpolicies", manifest)
        except AlreadyExists:
            found = await self._api.get("networkpolicies", self._namespace, name)
            if not self._is_ours(found):
                raise NotOurs(409, "NotOurs", f"a NetworkPolicy named {name} exists and is not ours") from None
            if found["spec"] != manifest["spec"]:
                uid, spec = found["metadata"]["uid"], manifest["spec"]
                await self._api.replace_spec("networkpolicies", self._namespace, name, uid, spec)

    def _refuse(self, name: str, refusal: Refusal) -> None:
        self.refused = True
        self._memory.refusals[name] = refusal

    async def _ensure_config_map(self, manifest: Manifest) -> None:
        name = manifest["metadata"]["name"]
        try:
            await self._api.create("configmaps", manifest)
        except AlreadyExists:
            found = await self._api.get("configmaps", self._namespace, name)
            if not self._is_ours(found):
                raise NotOurs(409, "NotOurs", f"a ConfigMap named {name} exists and is not ours") from None
            if _checksum(found) != _checksum(manifest):
                await self._delete("configmaps", name, found["metadata"]["uid"])
                await self._api.create("configmaps", manifest)

    async def _delete(self, kind: str, name: str, uid: str) -> None:
        """Gone, or another object of that name: both mean that this one is not there any more."""
        try:
            await self._api.delete(kind, self._namespace, name, uid)
        except (NotFound, Conflict):
            return

    async def _delete_own_config_map(self, name: str) -> None:
        try:
            found = await self._api.get("configmaps", self._namespace, name)
        except NotFound:
            return
        if self._is_ours(found):
            await self._delete("configmaps", name, found["metadata"]["uid"])

    async def _prune_config_maps(self, plan_id: str) -> None:
        selector = f"{LABEL_MANAGED_BY}={MANAGED_BY},{names.LABEL_RUN_UID}={self._uid},{names.LABEL_PLAN}!={plan_id}"
        for found in await self._api.find("configmaps", self._namespace, labels=selector):
            if self._is_ours(found):
                await self._delete("configmaps", found["metadata"]["name"], found["metadata"]["uid"])

    async def _patch_pod(self, action: PatchPod) -> None:
        """With the version that was looked at: a container that has started since would be killed by a new image."""
        patch: Json = {
            "metadata": {
                "resourceVersion": action.resource_version,
                "annotations": {names.ANNOTATION_SIGNALS: action.signals},
            }
        }
        if action.images:
            patch["spec"] = {"containers": [{"name": name, "image": image} for name, image in action.images]}
        try:
            await self._api.patch_pod(self._namespace, action.name, patch)
        except NotFound:
            return

    def _is_ours(self, found: Json) -> bool:
        return is_owned_by(found, self._uid)

    def _forget_plan(self) -> None:
        self._memory.plan = self._memory.plan_log = None
        self._memory.plan_log_pod = ""

    async def tell(self, event: Event, now: datetime) -> None:
        """An event is worth no retry. The same words about the same plan are told once while Kubernetes keeps them."""
        meta = self._raw["metadata"]
        name = _event_name(self._raw, event)
        manifest = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": self._namespace},
            "involvedObject": {
                "apiVersion": self._raw["apiVersion"],
                "kind": self._raw["kind"],
                "name": meta["name"],
                "namespace": self._namespace,
                "uid": self._uid,
            },
            "type": event.type,
            "reason": event.reason,
            "message": event.message,
            "count": 1,
            "firstTimestamp": timestamp(now),
            "lastTimestamp": timestamp(now),
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
        }
        try:
            await self._api.create("events", manifest)
        except AlreadyExists:
            return
        except KubeError as error:
            log.warning("event not written", run=meta["name"], namespace=self._namespace, error=str(error))


def _checksum(config_map: Json) -> str | None:
    found: str | None = (config_map["metadata"].get("annotations") or {}).get(ANNOTATION_SHA256)
    return found


def _event_name(raw_run: Json, event: Event) -> str:
    meta = raw_run["metadata"]
    words = "\x1f".join((meta["uid"], str(meta.get("generation")), event.reason, event.message))
    return f"{meta['name'][:200]}.{hashlib.sha256(words.encode()).hexdigest()[:16]}"
