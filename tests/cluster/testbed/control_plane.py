"""etcd, the API server, the controller manager and the scheduler."""

from __future__ import annotations

from tests.cluster.testbed.context import Component, Context
from tests.cluster.testbed.network import answers_ok
from tests.cluster.testbed.pki import kubeconfig_path
from tests.cluster.testbed.settings import POD_CIDR, SERVICE_CIDR

ETCD_URL = "http://127.0.0.1:2379"


def etcd(context: Context) -> Component:
    argv = [
        context.program("etcd"),
        f"--data-dir={context.layout.state}/etcd",
        "--unsafe-no-fsync",  # a cluster that may be lost with the machine
        f"--listen-client-urls={ETCD_URL}",
        f"--advertise-client-urls={ETCD_URL}",
        "--listen-peer-urls=http://127.0.0.1:2380",
        "--logger=zap",
        "--log-level=warn",
    ]
    return Component("etcd", argv, is_ready=lambda: answers_ok(f"{ETCD_URL}/readyz"))


def api_server(context: Context) -> Component:
    """Default admission plugins: they include both admission webhooks and both kinds of admission policies."""
    pki = context.layout.pki
    argv = [
        context.program("kube-apiserver"),
        f"--etcd-servers={ETCD_URL}",
        f"--advertise-address={context.node_ip}",
        "--secure-port=6443",
        f"--service-cluster-ip-range={SERVICE_CIDR}",
        f"--client-ca-file={pki}/ca.crt",
        f"--tls-cert-file={pki}/apiserver.crt",
        f"--tls-private-key-file={pki}/apiserver.key",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        f"--service-account-key-file={pki}/sa.pub",
        f"--service-account-signing-key-file={pki}/sa.key",
        "--authorization-mode=Node,RBAC",
        "--allow-privileged=true",
        f"--kubelet-client-certificate={pki}/admin.crt",
        f"--kubelet-client-key={pki}/admin.key",
        # Else `kubectl logs` looks the node's name up in DNS.
        "--kubelet-preferred-address-types=InternalIP",
    ]
    return Component("kube-apiserver", argv, is_ready=lambda: answers_ok(f"{context.api_url}/readyz"))


def controller_manager(context: Context) -> Component:
    pki = context.layout.pki
    argv = [
        context.program("kube-controller-manager"),
        f"--kubeconfig={kubeconfig_path(context, 'controller-manager')}",
        f"--root-ca-file={pki}/ca.crt",
        f"--service-account-private-key-file={pki}/sa.key",
        f"--cluster-signing-cert-file={pki}/ca.crt",
        f"--cluster-signing-key-file={pki}/ca.key",
        "--allocate-node-cidrs=true",
        f"--cluster-cidr={POD_CIDR}",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
        f"--flex-volume-plugin-dir={context.layout.kubelet}/volume-plugins",
    ]
    return Component("kube-controller-manager", argv, is_ready=lambda: answers_ok("https://127.0.0.1:10257/healthz"))


def scheduler(context: Context) -> Component:
    argv = [
        context.program("kube-scheduler"),
        f"--kubeconfig={kubeconfig_path(context, 'scheduler')}",
        "--leader-elect=false",
    ]
    return Component("kube-scheduler", argv, is_ready=lambda: answers_ok("https://127.0.0.1:10259/healthz"))
