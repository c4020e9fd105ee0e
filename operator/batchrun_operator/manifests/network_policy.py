"""The NetworkPolicy of a run whose sandboxes reach the internet and nothing near (docs/decisions/0015)."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

from batchrun_api import names
from batchrun_operator.manifests.meta import Manifest, Role, Subject, metadata, run_labels
from batchrun_operator.manifests.ranges import Blocked

DNS_PORTS = (53, 5353)
"""Of name servers; 5353 is where pods of some distributions listen behind the Service's 53."""


@dataclass(frozen=True, slots=True)
class Address:
    """A server of the run at an address."""

    ip: str
    port: int


@dataclass(frozen=True, slots=True)
class ServicePods:
    """Servers of the run behind a Service: engines look at packets once they have a pod's own address and port."""

    namespace: str
    labels: tuple[tuple[str, str], ...]
    port: int | str
    """A number, or the name of a container's port."""


Server = Address | ServicePods


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is around the pods of a run."""

    servers: tuple[Server, ...] = ()
    """Model, store and servers of tools, as far as they are known by address or Service."""
    api_server: tuple[str, ...] = ()
    """Addresses of the API server, which may be public."""


def policy_name(run: str, uid: str) -> str:
    """Name of a run's NetworkPolicy."""
    return names.child_name(run, uid, "network")


def network_policy(subject: Subject, around: Surroundings) -> Manifest:
    """For batch pods: names, the internet, the run's servers and what its spec opens; nothing in there is a server."""
    labels = run_labels(subject.name, subject.uid)
    blocked = Blocked((*subject.pods.blocked_ranges, *around.api_server))
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(subject, policy_name(subject.name, subject.uid), labels),
        "spec": {
            "podSelector": {"matchLabels": {names.LABEL_RUN_UID: subject.uid, names.LABEL_ROLE: str(Role.BATCH)}},
            "policyTypes": ["Ingress", "Egress"],
            "egress": [
                {"ports": [_port(number, kind) for number in DNS_PORTS for kind in ("UDP", "TCP")]},
                *({"to": [block]} for block in blocked.internet()),
                *_rules(around, blocked),
                *(
                    {"to": [{"ipBlock": block}]}
                    for cidr in subject.spec.tools.opened_ranges()
                    for block in _opened(cidr, around.api_server)
                ),
            ],
        },
    }


def _opened(cidr: str, api_server: Iterable[str]) -> Iterator[Manifest]:
    """A range of the spec without the API server, which nothing opens; an address that is all of it has no rule."""
    network = ip_network(cidr)
    inside = [ip_network(address) for address in api_server if ip_address(address) in network]
    if network in inside:
        return
    yield {"cidr": cidr} | ({"except": [*map(str, inside)]} if inside else {})


def _rules(around: Surroundings, blocked: Blocked) -> list[Manifest]:
    """For servers that are not reached as internet."""
    rules = [_to_service(server) for server in around.servers if isinstance(server, ServicePods)]
    near = {server for server in around.servers if isinstance(server, Address) and blocked.covers(server.ip)}
    ordered = sorted(near, key=lambda server: (server.ip, server.port))
    return [*rules, *map(_to_address, ordered)]


def _to_service(server: ServicePods) -> Manifest:
    pods = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": server.namespace}},
        "podSelector": {"matchLabels": dict(server.labels)},
    }
    return {"to": [pods], "ports": [_port(server.port)]}


def _to_address(server: Address) -> Manifest:
    length = ip_address(server.ip).max_prefixlen
    return {"to": [{"ipBlock": {"cidr": f"{server.ip}/{length}"}}], "ports": [_port(server.port)]}


def _port(port: int | str, protocol: str = "TCP") -> Manifest:
    return {"protocol": protocol, "port": port}
