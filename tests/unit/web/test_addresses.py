"""Which addresses may be read."""

import pytest

from batchrun_runner.web.addresses import AddressRules

NOT_PUBLIC = [
    "127.0.0.1",
    "127.255.255.254",
    "0.0.0.0",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "168.63.129.16",
    "::ffff:168.63.129.16",
    "100.64.0.1",
    "192.0.2.1",
    "198.18.0.1",
    "203.0.113.9",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "fe80::1",
    "fe80::1%eth0",
    "fc00::1",
    "fd00:ec2::254",
    "ff02::1",
    "2001:db8::1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "::127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a00:1",
    "2002:7f00:1::",
    "2002:a9fe:a9fe::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "::ffff:0:127.0.0.1",
    "fec0::1",
    "feff::1",
    "3fff::1",
    "5f00::1",
    "192.0.0.192",
    "::ffff:192.0.0.192",
    "192.88.99.1",
    "100.100.100.200",
    "2606:4700::5efe:7f00:1",
    "2606:4700::200:5efe:a9fe:a9fe",
]
PUBLIC = [
    "1.1.1.1",
    "93.184.216.34",
    "172.32.0.1",
    "2606:4700::1111",
    "::ffff:1.1.1.1",
    "64:ff9b::101:101",
    "2606:4700::5efe:101:101",
]


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_an_address_that_is_not_public_is_refused_in_every_form(address: str) -> None:
    assert not AddressRules().allows(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_allowed(address: str) -> None:
    assert AddressRules().allows(address)


def test_a_range_that_the_user_opened_is_allowed_and_its_neighbours_are_not() -> None:
    rules = AddressRules.of(["10.1.0.0/16", "fd00:1::/32"])

    assert rules.allows("10.1.2.3")
    assert rules.allows("fd00:1::5")
    assert not rules.allows("10.2.0.1")
    assert not rules.allows("fd00:2::5")
    assert not rules.allows("::ffff:10.2.0.1")
    assert rules.allows("::ffff:10.1.2.3")
