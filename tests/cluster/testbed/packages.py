"""Debian packages that the testbed needs, installed only when missing."""

from __future__ import annotations

import shutil

from tests.cluster.testbed.errors import CommandError, HostError
from tests.cluster.testbed.shell import SEARCH_PATH, run, say

DEBIAN_PACKAGES = (
    "buildah",
    "busybox-static",
    "ca-certificates",
    "chromium",
    "conntrack",
    "containerd",
    "containernetworking-plugins",
    "debootstrap",
    "ipset",
    "iproute2",
    "iptables",
    "mount",
    "openssl",
    "podman",
    "runc",
)


def missing_packages() -> list[str]:
    """Names out of DEBIAN_PACKAGES that dpkg does not have as installed."""
    query = ["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\n"]
    try:
        listing = run([*query, *DEBIAN_PACKAGES])
    except CommandError as error:  # status 1 as soon as one name is unknown; the known ones are listed all the same
        listing = error.output
    installed = {line.split()[0] for line in listing.splitlines() if line.endswith(" installed")}
    return [name for name in DEBIAN_PACKAGES if name not in installed]


def ensure_packages() -> None:
    """Install what is missing. HostError where there is no Debian package manager."""
    if shutil.which("dpkg-query", path=SEARCH_PATH) is None:
        raise HostError("the testbed builds its cluster on Debian only; set KUBECONFIG to use another cluster")
    missing = missing_packages()
    if not missing:
        return
    say(f"installing {' '.join(missing)}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "-qq"], extra_env=quiet)
    run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing], extra_env=quiet)
