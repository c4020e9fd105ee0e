"""Which addresses a model may have read: public ones, and ranges that the user opened (docs/decisions/0017)."""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Self

from batchrun_api.platform_addresses import AZURE_PLATFORM

Address = IPv4Address | IPv6Address

_NAT64 = IPv6Network("64:ff9b::/96")
_NAT64_LOCAL = IPv6Network("64:ff9b:1::/48")
_IPV4_COMPATIBLE = IPv6Network("::/96")
_NOWHERE = IPv6Address("::")
_ISATAP = {(0, 0x5EFE), (0x200, 0x5EFE)}
"""The middle groups of RFC 5214's interface identifiers, before an IPv4 address."""
_SPECIAL = tuple(ip_network(text) for text in ("fec0::/10", "3fff::/20", "5f00::/16", "192.0.0.0/24", "192.88.99.0/24"))
"""Not for the internet by the registries (RFC 6890), but global to the oldest Python that we run on."""


@dataclass(frozen=True)
class AddressRules:
    """What may be connected to."""

    allowed_ranges: tuple[str, ...] = ()
    """Ranges that may be read although they are not public."""

    @classmethod
    def of(cls, ranges: Iterable[str]) -> Self:
        """From the spec's texts. Raises ValueError for what is no range."""
        return cls(tuple(str(ip_network(text)) for text in ranges))

    def allows(self, text: str) -> bool:
        """Whether one address, as a resolver gives it, may be connected to."""
        address = ip_address(text.partition("%")[0])
        return all(self._is_opened(form) or _is_public(form) for form in _forms(address))

    def _is_opened(self, address: Address) -> bool:
        return any(address in ip_network(text) for text in self.allowed_ranges)


def _is_public(address: Address) -> bool:
    """As the special-purpose registries have it (RFC 6890); multicast is nobody's page."""
    is_of_a_cloud = str(address) == AZURE_PLATFORM
    is_special = any(address in network for network in _SPECIAL)
    return address.is_global and not (address.is_multicast or address.is_reserved or is_of_a_cloud or is_special)


def _forms(address: Address) -> list[Address]:
    """The address and the IPv4 addresses that it stands for, to which a gateway would pass it on."""
    if isinstance(address, IPv4Address):
        return [address]
    packed = address.packed
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address in _NAT64:
        return [IPv4Address(packed[-4:])]
    if address in _NAT64_LOCAL or address in _IPV4_COMPATIBLE:
        return [_NOWHERE]
    if address.sixtofour is not None:
        return [address, address.sixtofour]
    if address.teredo is not None:
        return [address, *address.teredo]
    if (int.from_bytes(packed[8:10]), int.from_bytes(packed[10:12])) in _ISATAP:
        return [address, IPv4Address(packed[-4:])]
    return [address]
