"""What enforces NetworkPolicies: kube-router's firewall, as a process of the host.

The bridge alone enforces nothing, which is a cluster that tests want as well: stop it and `remove_rules`.
"""

from __future__ import annotations

from tests.cluster.testbed import cleanup
from tests.cluster.testbed.context import Component, Context
from tests.cluster.testbed.network import answers_ok
from tests.cluster.testbed.pki import kubeconfig_path
from tests.cluster.testbed.settings import NODE_NAME, PUBLIC_ADDRESS, PUBLIC_DEVICE, SERVICE_CIDR
from tests.cluster.testbed.shell import run, succeeds

NAME = "kube-router"
_HEALTH_PORT = 20244

_RIGHTS = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: system:kube-router}
rules:
- {apiGroups: [""], resources: [namespaces, pods, services, nodes, endpoints], verbs: [get, list, watch]}
- {apiGroups: [networking.k8s.io], resources: [networkpolicies], verbs: [get, list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: system:kube-router}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:kube-router}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: system:kube-router}
"""


def _make_public_address() -> None:
    if not succeeds(["ip", "link", "show", PUBLIC_DEVICE]):
        run(["ip", "link", "add", PUBLIC_DEVICE, "type", "bridge"])
    run(["ip", "address", "replace", f"{PUBLIC_ADDRESS}/32", "dev", PUBLIC_DEVICE])
    run(["ip", "link", "set", PUBLIC_DEVICE, "up"])


def _prepare(context: Context) -> None:
    admin = kubeconfig_path(context, "admin")
    run([context.program("kubectl"), "--kubeconfig", admin, "apply", "-f", "-"], stdin=_RIGHTS)
    _make_public_address()


def engine(context: Context) -> Component:
    """Start it only when the API server answers."""
    argv = [
        context.program(NAME),
        "--run-firewall=true",
        "--run-router=false",
        "--run-service-proxy=false",
        "--run-loadbalancer=false",
        "--enable-cni=false",
        f"--kubeconfig={kubeconfig_path(context, NAME)}",
        f"--hostname-override={NODE_NAME}",
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        f"--health-port={_HEALTH_PORT}",
    ]
    return Component(
        NAME,
        argv,
        is_ready=lambda: answers_ok(f"http://127.0.0.1:{_HEALTH_PORT}/healthz"),
        prepare=lambda: _prepare(context),
        extra_env={"NODE_NAME": NODE_NAME},
    )


def remove_rules() -> None:
    """What a stopped engine leaves: it would go on for the pods that it knew."""
    cleanup.remove_firewall_rules(cleanup.POLICY_CHAIN)
    cleanup.remove_ipsets()
