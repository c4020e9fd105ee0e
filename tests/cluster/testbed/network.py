"""The node's address, and asking a server whether it is well."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request

from tests.cluster.testbed.errors import CommandError, HostError
from tests.cluster.testbed.settings import BRIDGE, PUBLIC_DEVICE
from tests.cluster.testbed.shell import run


def node_ip() -> str:
    """The IPv4 address under which pods reach this machine: that of the default route, else the first global one."""
    try:
        routes = json.loads(run(["ip", "-j", "-4", "route", "show", "default"]) or "[]")
        addresses = json.loads(run(["ip", "-j", "-4", "address", "show", "scope", "global"]) or "[]")
    except CommandError as error:
        raise HostError("cannot read this machine's addresses") from error
    by_device = {
        entry["ifname"]: info["local"]
        for entry in addresses
        for info in entry.get("addr_info", [])[:1]
        if entry.get("ifname") not in {BRIDGE, PUBLIC_DEVICE}
    }
    preferred = [by_device[route["dev"]] for route in routes if route.get("dev") in by_device]
    found = [*preferred, *by_device.values()]
    if not found:
        raise HostError("this machine has no IPv4 address besides loopback; the cluster's node needs one")
    return str(found[0])


def answers_ok(url: str, *, timeout_seconds: float = 3) -> bool:
    """True: GET gives 200. Certificates are not checked and proxies are not used: it is a liveness question."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(url, timeout=timeout_seconds) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        error.close()
        return False
    except OSError:
        return False
