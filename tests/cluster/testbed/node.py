"""The node: containerd with a bridge network, the kubelet, kube-proxy.

Everything that these programs would leave in places shared with the rest of the machine (network namespaces, CNI
state, pod logs, cgroups) is pointed below our own folders and names, so that cleaning up can be thorough and harm
nobody else.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.cluster.testbed.context import Component, Context
from tests.cluster.testbed.network import answers_ok
from tests.cluster.testbed.pki import kubeconfig_path
from tests.cluster.testbed.settings import (
    BRIDGE,
    CGROUP_ROOT,
    DNS_SERVICE_IP,
    NODE_NAME,
    NODE_POD_CIDR,
    PAUSE_IMAGE,
    POD_CIDR,
    Layout,
)
from tests.cluster.testbed.shell import run, succeeds, write_atomically

CGROUP_DIR = Path("/sys/fs/cgroup")
_CRI = 'plugins."io.containerd.grpc.v1.cri"'


def ctr(layout: Layout, *words: str | Path) -> str:
    """containerd's own client, in the namespace that the kubelet uses."""
    return run(["ctr", "--address", layout.containerd_socket, "--namespace", "k8s.io", *words])


def containerd_answers(layout: Layout) -> bool:
    return succeeds(["ctr", "--address", layout.containerd_socket, "version"], timeout_seconds=10)


def uses_cgroup_v1() -> bool:
    return not (CGROUP_DIR / "cgroup.controllers").is_file()


def cgroup_roots() -> list[Path]:
    """Our folder in every hierarchy, whether it exists or not."""
    if not uses_cgroup_v1():
        return [CGROUP_DIR / CGROUP_ROOT]
    return [hierarchy / CGROUP_ROOT for hierarchy in sorted(CGROUP_DIR.iterdir()) if hierarchy.is_dir()]


def _make_cgroup_roots() -> None:
    """The kubelet wants its root to exist. A fresh v1 cpuset is empty and admits no process until it is filled."""
    for root in cgroup_roots():
        root.mkdir(exist_ok=True)
        for name in ("cpuset.cpus", "cpuset.mems"):
            if uses_cgroup_v1() and (root / name).is_file():
                (root / name).write_text((root.parent / name).read_text())


def _cni_config(layout: Layout) -> str:
    ipam = {
        "type": "host-local",
        "dataDir": f"{layout.run}/cni-addresses",
        "ranges": [[{"subnet": NODE_POD_CIDR}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": BRIDGE,
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": ipam,
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "1.0.0", "name": "batchrun", "plugins": [bridge, ports]}, indent=1)


def _containerd_config(layout: Layout) -> str:
    # restrict_oom_score_adj: without CAP_SYS_RESOURCE runc dies with "can't get final child's PID from pipe: EOF".
    return f"""\
version = 2
root = "{layout.state}/containerd"
state = "{layout.run}/containerd"
[grpc]
  address = "{layout.containerd_socket}"
[{_CRI}]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [{_CRI}.cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{layout.config}/cni"
"""


def _prepare_containerd(layout: Layout) -> None:
    layout.run.mkdir(parents=True, exist_ok=True)
    write_atomically(layout.config / "cni" / "10-bridge.conflist", _cni_config(layout))
    write_atomically(layout.config / "containerd.toml", _containerd_config(layout))


def containerd(context: Context) -> Component:
    layout = context.layout
    argv = ["containerd", "--config", f"{layout.config}/containerd.toml"]
    return Component(
        "containerd",
        argv,
        is_ready=lambda: containerd_answers(layout),
        prepare=lambda: _prepare_containerd(layout),
    )


def _kubelet_config(context: Context) -> str:
    layout = context.layout
    return f"""\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {{enabled: false}}
  x509: {{clientCAFile: {layout.pki}/ca.crt}}
  webhook: {{enabled: true}}
authorization: {{mode: Webhook}}
tlsCertFile: {layout.pki}/kubelet.crt
tlsPrivateKeyFile: {layout.pki}/kubelet.key
containerRuntimeEndpoint: unix://{layout.containerd_socket}
cgroupDriver: cgroupfs
cgroupRoot: /{CGROUP_ROOT}
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: []
podLogsDir: {layout.state}/pod-logs
volumePluginDir: {layout.kubelet}/volume-plugins
clusterDNS: [{DNS_SERVICE_IP}]
clusterDomain: cluster.local
maxPods: 250
imageGCHighThresholdPercent: 100
evictionHard: {{memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}}
serializeImagePulls: {str(context.serialize_image_pulls).lower()}
"""


def configured_serialize_pulls(layout: Layout) -> bool | None:
    """What the kubelet's configuration file says; None when there is none."""
    path = layout.config / "kubelet.yaml"
    return "serializeImagePulls: true" in path.read_text() if path.is_file() else None


def _prepare_kubelet(context: Context) -> None:
    _make_cgroup_roots()
    write_atomically(context.layout.config / "kubelet.yaml", _kubelet_config(context))


def kubelet(context: Context) -> Component:
    """Start it only when containerd answers: it does not wait."""
    layout = context.layout
    argv = [
        context.program("kubelet"),
        f"--config={layout.config}/kubelet.yaml",
        f"--kubeconfig={kubeconfig_path(context, 'kubelet')}",
        f"--hostname-override={NODE_NAME}",
        f"--node-ip={context.node_ip}",
        f"--root-dir={layout.kubelet}",
    ]
    return Component(
        "kubelet",
        argv,
        is_ready=lambda: answers_ok("http://127.0.0.1:10248/healthz"),
        prepare=lambda: _prepare_kubelet(context),
    )


def _allow_forwarding() -> None:
    """Pods reach each other and the world. The bridge switch exists only where the kernel has that module."""
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    bridged = Path("/proc/sys/net/bridge/bridge-nf-call-iptables")
    if bridged.is_file():
        bridged.write_text("1")


def kube_proxy(context: Context) -> Component:
    argv = [
        context.program("kube-proxy"),
        f"--kubeconfig={kubeconfig_path(context, 'proxy')}",
        "--proxy-mode=iptables",
        f"--cluster-cidr={POD_CIDR}",
        f"--hostname-override={NODE_NAME}",
    ]
    return Component(
        "kube-proxy",
        argv,
        is_ready=lambda: answers_ok("http://127.0.0.1:10256/healthz"),
        prepare=_allow_forwarding,
    )
