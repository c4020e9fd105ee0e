"""Removing what a cluster leaves, whatever state it died in.

Every step looks at the machine and not at records, works when there is nothing to do, and touches only what carries
our paths, our cgroup, our bridge, our marker or Kubernetes' own firewall chain names.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.cluster.testbed import processes
from tests.cluster.testbed.errors import CommandError
from tests.cluster.testbed.mounts import unmount_below
from tests.cluster.testbed.node import cgroup_roots
from tests.cluster.testbed.settings import BRIDGE, PUBLIC_DEVICE, Layout
from tests.cluster.testbed.shell import run, succeeds, wait_until

# kube-proxy's, kube-router's and the kubelet's; the bridge and portmap plugins'.
_OUR_CHAIN = re.compile(r"(KUBE-|CNI-)")
POLICY_CHAIN = re.compile(r"KUBE-(ROUTER|POD-FW|NWPLCY)-")
"""kube-router's own."""
_OUR_IPSET = re.compile(r"(KUBE-|kube-router-|inet6:KUBE-|inet6:kube-router-)")


def clean(layout: Layout) -> None:
    """End all processes of a cluster and remove all traces but keys, S3 data, logs and image records."""
    _kill_recorded(layout)
    processes.kill_marked(layout.state)
    _kill_cgroups()
    _remove_cgroups()
    unmount_below(layout.state, layout.run)
    _remove_links()
    remove_firewall_rules()
    remove_ipsets()
    _remove_leftover_files(layout)
    kept = {layout.pki, layout.s3, layout.log, layout.loaded}
    for path in (*_children(layout.state), layout.run):
        if path not in kept:
            _remove(path)


def forget(layout: Layout) -> None:
    """After `clean`: remove what a repair keeps, and what tests read."""
    for path in (layout.state, layout.public):
        _remove(path)


def _children(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _kill_recorded(layout: Layout) -> None:
    """SIGKILL at once: a graceful API server waits a minute for an etcd that is already gone."""
    for name, record in processes.read_records(layout.pid).items():
        processes.kill(record)
        processes.record_path(layout.pid, name).unlink(missing_ok=True)


def _cgroup_folders() -> list[Path]:
    """All folders of our cgroups, children before parents."""
    found: list[Path] = []
    for root in cgroup_roots():
        for folder, _, _ in os.walk(root, topdown=False):
            found.append(Path(folder))
    return found


def _cgroup_pids() -> Iterator[int]:
    for folder in _cgroup_folders():
        with suppress(OSError):
            yield from (int(word) for word in (folder / "cgroup.procs").read_text().split())


def _kill_cgroups() -> None:
    """Containers' processes: the shims that would reap them are gone, so they are ended by their cgroup."""

    def none_left() -> bool:
        pids = [pid for pid in set(_cgroup_pids()) if processes.start_ticks(pid) is not None]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not pids

    _thaw()
    wait_until("end of all containers", none_left, timeout_seconds=30)


def _thaw() -> None:
    """A paused container does not die of SIGKILL on cgroup v1 before it is thawed."""
    for folder in _cgroup_folders():
        with suppress(OSError):
            if (folder / "freezer.state").is_file():
                (folder / "freezer.state").write_text("THAWED")


def _remove_cgroups() -> None:
    def removed() -> bool:
        for folder in _cgroup_folders():
            with suppress(OSError):  # busy for some milliseconds after its last process ended
                folder.rmdir()
        return not any(root.exists() for root in cgroup_roots())

    wait_until("removal of the pods' cgroups", removed, timeout_seconds=10)


def _remove_links() -> None:
    """The bridge and the host ends of the pods' network pairs (they go with their namespaces, but not at once)."""
    with suppress(CommandError):
        for line in run(["ip", "-o", "link", "show", "master", BRIDGE]).splitlines():
            succeeds(["ip", "link", "delete", line.split(": ")[1].split("@")[0]])
    for device in (BRIDGE, PUBLIC_DEVICE):
        succeeds(["ip", "link", "delete", device])


def removal_rules(saved: str, ours: re.Pattern[str] = _OUR_CHAIN) -> str:
    """Input for `iptables-restore --noflush` that undoes Kubernetes' part of an `iptables-save`; "" when none.

    `ours`: how names of the chains begin that go.
    """
    script: list[str] = []
    table: list[str] = []
    chains: list[str] = []
    for line in saved.splitlines():
        if line.startswith("*"):
            table, chains = [line], []
        elif line.startswith(":") and ours.match(line[1:]):
            chains.append(line[1:].split()[0])
        elif line.startswith("-A ") and not ours.match(line[3:]) and re.search(rf"-j {ours.pattern}", line):
            table.append(f"-D {line[3:]}")
        elif line == "COMMIT" and chains:
            flushed = [f"-F {chain}" for chain in chains]
            script += [*table, *flushed, *(f"-X {chain}" for chain in chains), "COMMIT"]
    return "\n".join(script) + "\n" if script else ""


def remove_firewall_rules(ours: re.Pattern[str] = _OUR_CHAIN) -> None:
    """Chains whose names begin so, and the rules that lead to them."""
    for family in ("iptables", "ip6tables"):
        with suppress(CommandError):  # a machine without IPv6
            rules = removal_rules(run([f"{family}-save"]), ours)
            if rules:
                run([f"{family}-restore", "--noflush"], stdin=rules)


def remove_ipsets() -> None:
    """Those that no rule uses any more."""
    with suppress(CommandError):
        for name in run(["ipset", "list", "-name"]).split():
            if _OUR_IPSET.match(name):
                succeeds(["ipset", "destroy", name])


def _remove_leftover_files(layout: Layout) -> None:
    """Two places that cannot be configured: the kubelet's links to logs and the network plugins' results."""
    for link in _children(Path("/var/log/containers")):
        if link.is_symlink() and link.readlink().is_relative_to(layout.state):
            link.unlink(missing_ok=True)
    for result in _children(Path("/var/lib/cni/results")):
        if result.is_file() and os.fsencode(layout.run) in result.read_bytes():
            result.unlink(missing_ok=True)
