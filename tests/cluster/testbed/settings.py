"""Where the testbed keeps its things, and the few choices that can be made from outside.

Three places: the cache (binaries, bases, image archives: survives `down`), the state (one cluster: gone after `down`)
and `<repo>/.cluster` (what people and tests read: kubeconfig, S3 credentials, kubectl and helm).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

TESTBED_DIR = Path(__file__).resolve().parent
REPO_DIR = TESTBED_DIR.parents[2]

NODE_NAME = "node1"
POD_CIDR = "10.244.0.0/16"
NODE_POD_CIDR = "10.244.0.0/24"
SERVICE_CIDR = "10.96.0.0/16"
API_SERVICE_IP = "10.96.0.1"
DNS_SERVICE_IP = "10.96.0.10"
BRIDGE = "batchrun0"
# An address that looks public and leads to this machine: without internet, pods have one to reach all the same.
PUBLIC_ADDRESS = "203.0.113.7"
PUBLIC_DEVICE = "batchrun-public"
API_PORT = 6443
DNS_PORT = 5353  # a policy that lets pods ask for names lets them reach it
S3_PORT = 7070
S3_REGION = "us-east-1"
PAUSE_IMAGE = "localhost/batchrun/pause:1"
# Below it hang all pods' cgroups. A name of our own makes "every process in there is ours" true on any machine.
CGROUP_ROOT = "batchrun-cluster"

SERIALIZE_PULLS_VARIABLE = "BATCHRUN_TESTBED_SERIALIZE_IMAGE_PULLS"


def _cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "batchrun"


@dataclass(frozen=True)
class Layout:
    """All paths, derived from four roots."""

    repo: Path = REPO_DIR
    cache: Path = field(default_factory=_cache_dir)
    state: Path = Path("/var/lib/batchrun-cluster")
    run: Path = Path("/run/batchrun-cluster")
    # Outside the state, which is deleted while the lock is held.
    lock: Path = Path("/run/lock/batchrun-cluster.lock")

    @property
    def pki(self) -> Path:
        return self.state / "pki"

    @property
    def log(self) -> Path:
        return self.state / "log"

    @property
    def pid(self) -> Path:
        return self.state / "pid"

    @property
    def config(self) -> Path:
        return self.state / "config"

    @property
    def loaded(self) -> Path:
        """One record per image that was put into containerd, so that a repaired cluster gets them back."""
        return self.state / "loaded"

    @property
    def s3(self) -> Path:
        return self.state / "s3"

    @property
    def kubelet(self) -> Path:
        return self.state / "kubelet"

    @property
    def containerd_socket(self) -> Path:
        return self.run / "containerd.sock"

    @property
    def public(self) -> Path:
        return self.repo / ".cluster"

    @property
    def kubeconfig(self) -> Path:
        return self.public / "kubeconfig"

    @property
    def kubectl(self) -> Path:
        return self.public / "bin" / "kubectl"

    @property
    def given(self) -> Path:
        """There when `kubeconfig` is a copy of one that was given from outside."""
        return self.public / "given"


def serialize_image_pulls() -> bool | None:
    """The kubelet's `serializeImagePulls` by BATCHRUN_TESTBED_SERIALIZE_IMAGE_PULLS=true|false; None: not said.

    The kubelet's own default is true, ours is false: one slow pull leaves the others alone. Test both.
    """
    value = os.environ.get(SERIALIZE_PULLS_VARIABLE)
    return None if value is None else value.lower() == "true"
