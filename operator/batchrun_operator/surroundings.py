"""What is around the pods of a run: addresses of its model and store, and those of the API server.

Names are looked up here, for the decision compares and does not ask. What a name has meant lately counts as well: a
name server that gives a part of its addresses at a time, or none for now, takes no address away at once.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from batchrun_api.spec.output import S3Location
from batchrun_api.spec.run import BatchRunSpec
from batchrun_operator.kube import NotFound, Refused
from batchrun_operator.manifests.network_policy import Address, Server, ServicePods, Surroundings
from batchrun_operator.ports import Api, Json

if TYPE_CHECKING:
    from batchrun_operator.memory import RunMemory
    from batchrun_operator.reconcile.observed import Run

Resolve = Callable[[str], Awaitable[tuple[str, ...]]]
"""Addresses of a name; none where it has none, or nobody answers."""
Place = tuple[str, int]
"""Host and port."""

ADDRESSES_LAST = timedelta(minutes=10)
_LOOK_UP_SECONDS = 2.0
_DEFAULT_PORTS = {"http": 80, "https": 443}
_API_SERVER = ("default", "kubernetes")
"""Namespace and name of its Service, and of the EndpointSlice that it writes itself."""
_OF_SERVICE = "kubernetes.io/service-name"


async def resolve(host: str) -> tuple[str, ...]:
    """By this pod's own resolver."""
    try:
        async with asyncio.timeout(_LOOK_UP_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError):
        return ()
    return tuple(sorted({str(sockaddr[0]) for *_, sockaddr in found}))


async def look_around(api: Api, run: "Run", memory: "RunMemory", now: datetime, resolve: Resolve) -> Surroundings:
    """Model, store, servers of tools and the API server as they can be reached now. Raises KubeError."""
    spec = run.spec
    if spec is None:
        return Surroundings()
    servers: list[Server] = []
    for place in dict.fromkeys((*_model(spec), *_store(spec), *_tools(spec))):
        servers += await _Search(api, run.namespace, memory, now, resolve).servers(*place)
    return Surroundings(tuple(dict.fromkeys(servers)), await _api_server(api))


def _model(spec: BatchRunSpec) -> Iterator[Place]:
    yield from _place(spec.model.base_url)


def _store(spec: BatchRunSpec) -> Iterator[Place]:
    if spec.output is None:
        return
    s3 = spec.output.s3
    for host, port in _place(s3.endpoint_url or _amazon(s3)):
        yield host, port
        if not (s3.endpoint_url if s3.force_path_style is None else s3.force_path_style):
            yield f"{s3.bucket}.{host}", port


def _tools(spec: BatchRunSpec) -> Iterator[Place]:
    for url in spec.tools.server_urls():
        yield from _place(url)


def _amazon(s3: S3Location) -> str:
    return f"https://s3.{s3.region}.amazonaws.com" if s3.region else "https://s3.amazonaws.com"


def _place(url: str) -> Iterator[Place]:
    with suppress(ValueError):
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
        if parts.hostname and port:
            yield parts.hostname.rstrip("."), port


class _Search:
    """For one server."""

    def __init__(self, api: Api, namespace: str, memory: "RunMemory", now: datetime, resolve: Resolve) -> None:
        self._api = api
        self._namespace = namespace
        self._memory = memory
        self._now = now
        self._resolve = resolve

    async def servers(self, host: str, port: int) -> list[Server]:
        """All that may stand behind host and port."""
        if _is_address(host):
            return [Address(address, port) for address in _plain([host])]
        for namespace, name in services_named(host, self._namespace):
            service = await _get(self._api, "services", namespace, name)
            if service is not None:
                return await self._behind(service, port)
        return await self._resolved(host, port)

    async def _resolved(self, host: str, port: int) -> list[Server]:
        known = self._memory.addresses.setdefault(host, {})
        fresh = await self._resolve(host)
        known |= dict.fromkeys(fresh, self._now)
        if fresh:
            for address in [address for address, seen in known.items() if self._now - seen > ADDRESSES_LAST]:
                del known[address]
        return [Address(address, port) for address in sorted({*_plain(known)})]

    async def _behind(self, service: Json, port: int) -> list[Server]:
        """Its pods, or the addresses that somebody wrote for it; and its own, for engines that look before that."""
        spec, meta = service["spec"], service["metadata"]
        if spec.get("type") == "ExternalName":
            return await self._resolved(spec["externalName"], port)
        own = [address for address in spec.get("clusterIPs") or () if address != "None"]
        found: list[Server] = [Address(address, port) for address in own]
        if spec.get("selector"):
            target = _target_port(spec, port) if own else port
            return [*found, ServicePods(meta["namespace"], tuple(sorted(spec["selector"].items())), target)]
        slices = await self._api.find("endpointslices", meta["namespace"], labels=f"{_OF_SERVICE}={meta['name']}")
        return [*found, *(server for item in slices for server in _written(item, _port_name(spec, port), port, own))]


def _written(item: Json, port_name: str, port: int, own: list[str]) -> Iterator[Server]:
    """Addresses of an EndpointSlice. Without an address of its own the Service is reached at the caller's port."""
    ports = [entry for entry in item.get("ports") or () if (entry.get("name") or "") == port_name]
    numbers = [entry["port"] for entry in ports if entry.get("port")] if own else [port]
    for endpoint in item.get("endpoints") or ():
        for address in _plain(endpoint.get("addresses") or ()):
            yield from (Address(address, number) for number in numbers)


def _entry(spec: Json, port: int) -> Json:
    return next((entry for entry in spec.get("ports") or () if entry.get("port") == port), {})


def _port_name(spec: Json, port: int) -> str:
    return str(_entry(spec, port).get("name") or "")


def _target_port(spec: Json, port: int) -> int | str:
    target: int | str = _entry(spec, port).get("targetPort") or port
    return target


async def _api_server(api: Api) -> tuple[str, ...]:
    """None where the cluster does not tell: the runner finds out whether it is reached."""
    service = await _get(api, "services", *_API_SERVER)
    slice_ = await _get(api, "endpointslices", *_API_SERVER)
    own = (service or {}).get("spec", {}).get("clusterIPs") or ()
    behind = [address for item in (slice_ or {}).get("endpoints") or () for address in item.get("addresses") or ()]
    return tuple(sorted({*_plain((*own, *behind))}))


async def _get(api: Api, kind: str, namespace: str, name: str) -> Json | None:
    """None: there is none, or it is not for this operator, which may be bound to a few namespaces."""
    try:
        return await api.get(kind, namespace, name)
    except (NotFound, Refused):
        return None


def services_named(host: str, namespace: str) -> list[tuple[str, str]]:
    """(namespace, name) of the Service that pods in `namespace` may mean by a host name."""
    labels = host.lower().split(".")
    if len(labels) == 1:
        return [(namespace, labels[0])]
    if len(labels) == 2:
        return [(labels[1], labels[0])]
    if "svc" in labels[2:]:
        place = labels.index("svc", 2)
        return [(labels[place - 1], labels[place - 2])]
    return []


def plain_address(text: str) -> str:
    """The IP address to which packets go; empty for a name, and for what is the pod's own or needs a device's name."""
    try:
        address = ip_address(text)
    except ValueError:
        return ""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return "" if address.is_loopback or "%" in text else str(address)


def _plain(addresses: Iterable[str]) -> Iterator[str]:
    return filter(None, map(plain_address, addresses))


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
