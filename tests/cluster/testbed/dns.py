"""Names of services for pods: CoreDNS as a process of the host, behind a Service as the cluster's DNS.

It answers for `cluster.local` and asks the machine's own name servers for the rest.
"""

from __future__ import annotations

from pathlib import Path

from tests.cluster.testbed.context import Component, Context
from tests.cluster.testbed.network import answers_ok
from tests.cluster.testbed.pki import kubeconfig_path
from tests.cluster.testbed.settings import DNS_PORT, DNS_SERVICE_IP
from tests.cluster.testbed.shell import run, write_atomically

NAME = "coredns"
_READY_ADDRESS = "127.0.0.1:10054"
_RESOLV_CONF = Path("/etc/resolv.conf")


def _corefile(context: Context) -> str:
    has_servers = _RESOLV_CONF.is_file() and "nameserver" in _RESOLV_CONF.read_text()
    return f"""\
.:{DNS_PORT} {{
    bind {context.node_ip}
    errors
    ready {_READY_ADDRESS}
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        kubeconfig {kubeconfig_path(context, NAME)}
        fallthrough in-addr.arpa ip6.arpa
        ttl 5
    }}
    {f"forward . {_RESOLV_CONF}" if has_servers else ""}
    cache 5
}}
"""


def _manifest(context: Context) -> str:
    """What CoreDNS may read, and the Service that leads to it."""
    return f"""\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: system:coredns}}
rules:
- {{apiGroups: [""], resources: [services, pods, namespaces], verbs: [list, watch]}}
- {{apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: system:coredns}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:coredns}}
subjects:
- {{apiGroup: rbac.authorization.k8s.io, kind: User, name: system:coredns}}
---
apiVersion: v1
kind: Service
metadata: {{name: kube-dns, namespace: kube-system}}
spec:
  clusterIP: {DNS_SERVICE_IP}
  ports:
  - {{name: dns, port: 53, protocol: UDP}}
  - {{name: dns-tcp, port: 53, protocol: TCP}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: kube-dns
  namespace: kube-system
  labels: {{kubernetes.io/service-name: kube-dns}}
addressType: IPv4
endpoints:
- addresses: ["{context.node_ip}"]
ports:
- {{name: dns, port: {DNS_PORT}, protocol: UDP}}
- {{name: dns-tcp, port: {DNS_PORT}, protocol: TCP}}
"""


def _prepare(context: Context) -> None:
    write_atomically(context.layout.config / "Corefile", _corefile(context))
    admin = kubeconfig_path(context, "admin")
    run([context.program("kubectl"), "--kubeconfig", admin, "apply", "-f", "-"], stdin=_manifest(context))


def server(context: Context) -> Component:
    """Start it only when the API server answers: its rights and its Service are made first."""
    argv = [context.program("coredns"), "-conf", f"{context.layout.config}/Corefile"]
    return Component(
        NAME,
        argv,
        is_ready=lambda: answers_ok(f"http://{_READY_ADDRESS}/ready"),
        prepare=lambda: _prepare(context),
    )
