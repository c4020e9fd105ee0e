"""Volumes and where they are mounted."""

from dataclasses import dataclass, field
from pathlib import PurePosixPath

from batchrun_api import names
from batchrun_api.spec.base import ConfigMapKeyRef
from batchrun_operator.manifests.config import CONFIG_KEY, config_name
from batchrun_operator.manifests.meta import Manifest, Subject

TMP_DIR = "/tmp"  # noqa: S108 - an emptyDir of the pod
HELPER_VOLUME = "helper"
COPIED_FILES = ("/etc/hosts", "/etc/resolv.conf")
"""Shared and writable among a pod's containers, unless each mounts a read-only copy."""
SHM_LIMIT = "64Mi"


@dataclass(frozen=True, slots=True)
class Mounted:
    """Volumes of a pod and the mounts of one of its containers."""

    volumes: list[Manifest] = field(default_factory=list)
    mounts: list[Manifest] = field(default_factory=list)

    def __add__(self, other: "Mounted") -> "Mounted":
        return Mounted(self.volumes + other.volumes, self.mounts + other.mounts)


def mount(volume: str, path: str, *, read_only: bool = False, sub_path: str | None = None) -> Manifest:
    """One entry of `volumeMounts`."""
    entry: Manifest = {"name": volume, "mountPath": path}
    if sub_path is not None:
        entry["subPath"] = sub_path
    if read_only:
        entry["readOnly"] = True
    return entry


def empty_dir(name: str, path: str) -> Mounted:
    """A folder on the node's disk that lives as long as the pod."""
    return Mounted([{"name": name, "emptyDir": {}}], [mount(name, path)])


def private_shm(name: str) -> Mounted:
    """A /dev/shm of one's own; it counts as memory of the container that writes to it."""
    volume = {"name": name, "emptyDir": {"medium": "Memory", "sizeLimit": SHM_LIMIT}}
    return Mounted([volume], [mount(name, "/dev/shm")])  # noqa: S108


def run_config(subject: Subject) -> Mounted:
    """`run.json`."""
    name = config_name(subject.name, subject.uid, subject.plan_id)
    volume = {
        "name": "config",
        "configMap": {"name": name, "items": [{"key": CONFIG_KEY, "path": CONFIG_KEY}]},
    }
    return Mounted([volume], [mount("config", names.CONFIG_DIR, read_only=True)])


def config_map_file(volume: str, reference: ConfigMapKeyRef, path: str) -> Mounted:
    """One key of a user's ConfigMap as the file `path`."""
    file = PurePosixPath(path)
    source = {
        "name": volume,
        "configMap": {"name": reference.name, "items": [{"key": reference.key, "path": file.name}]},
    }
    return Mounted([source], [mount(volume, str(file.parent), read_only=True)])


def prefill(subject: Subject) -> Mounted:
    """The prefill messages, where they lie in a ConfigMap."""
    source = subject.spec.agent.prefill_messages_from
    if source is None:
        return Mounted()
    return config_map_file("prefill", source.config_map_key_ref, names.PREFILL_FILE)


def data_set(subject: Subject) -> Mounted:
    """The data set, where it lies in a ConfigMap or in a PersistentVolumeClaim."""
    source = subject.spec.dataset
    if source.config_map_key_ref is not None:
        return config_map_file("dataset", source.config_map_key_ref, names.DATASET_FILE)
    if source.persistent_volume_claim is not None:
        # Read-only as a volume, too: else the kubelet would give the pod's group to every file in it.
        claim = {"claimName": source.persistent_volume_claim.claim_name, "readOnly": True}
        volume = {"name": "dataset", "persistentVolumeClaim": claim}
        return Mounted([volume], [mount("dataset", names.DATASET_VOLUME_DIR, read_only=True)])
    return Mounted()


def signals() -> Mounted:
    """The signals annotation as a file that the kubelet keeps up to date."""
    file = PurePosixPath(names.SIGNALS_FILE)
    field_path = f"metadata.annotations['{names.ANNOTATION_SIGNALS}']"
    volume = {
        "name": "signals",
        "downwardAPI": {"items": [{"path": file.name, "fieldRef": {"fieldPath": field_path}}]},
    }
    return Mounted([volume], [mount("signals", str(file.parent), read_only=True)])


def copied_files() -> list[Manifest]:
    """Mounts of the copies that the install container made, over the originals."""
    return [mount(HELPER_VOLUME, path, read_only=True, sub_path=PurePosixPath(path).name) for path in COPIED_FILES]
