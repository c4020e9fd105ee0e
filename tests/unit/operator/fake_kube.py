"""An API server in memory: versions, selectors, conflicts, owner-less deletion of pods by the caller.

`kill_after` makes the operator die between two API calls: that many calls succeed, the next raises `Killed`.
"""

import copy
import itertools
from typing import Any

from batchrun_operator.kube import AlreadyExists, Conflict, NotFound, Refused

Json = dict[str, Any]


class Killed(BaseException):
    """SIGKILL of the operator; no handler of ours may catch it."""


class FakeKube:
    """Fulfils `ports.Api`."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Json] = {}
        self.logs: dict[str, str] = {}
        """By pod name."""
        self.refuse: dict[str, str] = {}
        """Kind → message: creations of it are refused."""
        self.kill_after: int | None = None
        self.calls: list[str] = []
        self._versions = itertools.count(1)
        self._uids = itertools.count(1)

    def put(self, kind: str, manifest: Json) -> Json:
        """Create without counting as a call."""
        made = copy.deepcopy(manifest)
        meta = made["metadata"]
        meta.setdefault("uid", f"uid-{next(self._uids)}")
        meta["resourceVersion"] = str(next(self._versions))
        self.objects[kind, meta["namespace"], meta["name"]] = made
        return made

    def touch(self, kind: str, item: Json) -> None:
        """Somebody else changed this object."""
        item["metadata"]["resourceVersion"] = str(next(self._versions))
        assert self.objects[kind, item["metadata"]["namespace"], item["metadata"]["name"]] is item

    def all(self, kind: str) -> list[Json]:
        return [item for (of, _, _), item in self.objects.items() if of == kind]

    def remove(self, kind: str, item: Json) -> None:
        self.objects.pop((kind, item["metadata"]["namespace"], item["metadata"]["name"]), None)

    def _call(self, what: str) -> None:
        if self.kill_after is not None:
            if self.kill_after == 0:
                self.kill_after = None
                raise Killed
            self.kill_after -= 1
        self.calls.append(what)

    def _found(self, kind: str, namespace: str, name: str) -> Json:
        found = self.objects.get((kind, namespace, name))
        if found is None:
            raise NotFound(404, "NotFound", f"{kind} {name}")
        return found

    async def get(self, kind: str, namespace: str, name: str) -> Json:
        self._call(f"get {kind}")
        return copy.deepcopy(self._found(kind, namespace, name))

    async def find(self, kind: str, namespace: str, *, labels: str = "", fields: str = "") -> list[Json]:
        self._call(f"find {kind}")
        return [
            copy.deepcopy(item)
            for (of, where, _), item in self.objects.items()
            if of == kind and namespace in ("", where) and _selected(item, labels) and _by_fields(item, fields)
        ]

    async def create(self, kind: str, manifest: Json) -> Json:
        self._call(f"create {kind}")
        meta = manifest["metadata"]
        if kind in self.refuse:
            raise Refused(403, "Forbidden", self.refuse[kind])
        if (kind, meta["namespace"], meta["name"]) in self.objects:
            raise AlreadyExists(409, "AlreadyExists", meta["name"])
        return copy.deepcopy(self.put(kind, manifest))

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> None:
        """A Job goes at once and its pods begin to leave, as with background deletion."""
        self._call(f"delete {kind}")
        found = self._found(kind, namespace, name)
        if found["metadata"]["uid"] != uid:
            raise Conflict(409, "Conflict", "uid")
        if kind == "pods":
            found["metadata"]["deletionTimestamp"] = "now"
            return
        del self.objects[kind, namespace, name]
        if kind == "jobs":
            for pod in self.all("pods"):
                if pod["metadata"]["labels"].get("job-name") == name:
                    pod["metadata"]["deletionTimestamp"] = "now"

    async def patch_pod(self, namespace: str, name: str, patch: Json) -> Json:
        self._call("patch pods")
        found = self._found("pods", namespace, name)
        if patch["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", name)
        found["metadata"].setdefault("annotations", {}).update(patch["metadata"]["annotations"])
        for change in patch.get("spec", {}).get("containers", ()):
            container = next(item for item in found["spec"]["containers"] if item["name"] == change["name"])
            container["image"] = change["image"]
        self.touch("pods", found)
        return copy.deepcopy(found)

    async def replace_spec(self, kind: str, namespace: str, name: str, uid: str, spec: Json) -> Json:
        self._call(f"patch {kind}")
        found = self._found(kind, namespace, name)
        if kind in self.refuse or found["metadata"]["uid"] != uid:
            raise Refused(403, "Forbidden", self.refuse.get(kind, "uid"))
        found["spec"] = copy.deepcopy(spec)
        self.touch(kind, found)
        return copy.deepcopy(found)

    async def replace_run_status(self, run: Json) -> Json:
        self._call("update batchruns/status")
        meta = run["metadata"]
        found = self._found("batchruns", meta["namespace"], meta["name"])
        if meta["resourceVersion"] != found["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", meta["name"])
        found["status"] = copy.deepcopy(run["status"])
        self.touch("batchruns", found)
        return copy.deepcopy(found)

    async def read_log(self, namespace: str, pod: str, container: str, *, tail_lines: int, limit_bytes: int) -> str:
        self._call("get pods/log")
        self._found("pods", namespace, pod)
        return self.logs.get(pod, "")


def _selected(item: Json, selector: str) -> bool:
    labels = item["metadata"].get("labels") or {}
    for part in selector.split(",") if selector else ():
        key, differs, value = part.partition("!=")
        if differs:
            if labels.get(key) == value:
                return False
            continue
        key, equals, value = part.partition("=")
        if key not in labels or (equals and labels[key] != value):
            return False
    return True


def _by_fields(item: Json, selector: str) -> bool:
    for part in selector.split(",") if selector else ():
        path, _, value = part.partition("=")
        found: Any = item
        for key in path.split("."):
            found = (found or {}).get(key)
        if found != value:
            return False
    return True
