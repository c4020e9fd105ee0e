"""Which addresses are no internet. Pure arithmetic over networks."""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Network, collapse_addresses, ip_address, ip_network

from batchrun_api.platform_addresses import AZURE_PLATFORM
from batchrun_operator.manifests.meta import Manifest

INTERNET = "0.0.0.0/0"
INTERNET_V6 = "::/0"
_TRANSLATED = int(IPv6Network("64:ff9b::/96").network_address)
"""NAT64 reaches IPv4 addresses behind this prefix (RFC 6052)."""

NOT_PUBLIC_V4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            f"{AZURE_PLATFORM}/32",
            "169.254.0.0/16",  # metadata of clouds lies in here
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "224.0.0.0/4",
            "240.0.0.0/4",
        ),
    )
)
NOT_PUBLIC_V6 = tuple(
    map(
        IPv6Network,
        (
            "::/127",
            "64:ff9b:1::/48",
            "2002::/16",
            "fc00::/7",
            "fe80::/10",
            "fec0::/10",
            "ff00::/8",
        ),
    )
)


class Blocked:
    """The ranges that a run must not reach: those that are never public, and the ones given."""

    def __init__(self, ranges: Iterable[str] = ()) -> None:
        more = [ip_network(text, strict=False) for text in ranges]
        v4 = [*NOT_PUBLIC_V4, *(item for item in more if isinstance(item, IPv4Network))]
        v6 = [*NOT_PUBLIC_V6, *(item for item in more if isinstance(item, IPv6Network))]
        self._v4 = list(collapse_addresses(v4))
        self._v6 = list(collapse_addresses([*v6, *map(_translated, self._v4)]))

    def covers(self, address: str) -> bool:
        """Whether the address is in one of them."""
        known = ip_address(address)
        if isinstance(known, IPv4Address):
            return any(known in network for network in self._v4)
        return any(known in network for network in self._v6)

    def internet(self) -> Iterator[Manifest]:
        """`ipBlock`s of all the rest. A family that is blocked as a whole has none."""
        for whole, blocked in ((INTERNET, [*map(str, self._v4)]), (INTERNET_V6, [*map(str, self._v6)])):
            if whole not in blocked:
                yield {"ipBlock": {"cidr": whole, "except": blocked}}


def _translated(network: IPv4Network) -> IPv6Network:
    return IPv6Network((_TRANSLATED + int(network.network_address), 96 + network.prefixlen))
