"""What can be tested of the testbed without a cluster: above all that it harms nothing that it did not make."""

from __future__ import annotations

import dataclasses
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchrun_api.image_names import whole_name
from tests.cluster.testbed import given, processes
from tests.cluster.testbed.binaries import FAMILIES, Family, build_flags, cache_dir, family_version, program_names
from tests.cluster.testbed.cleanup import POLICY_CHAIN, removal_rules
from tests.cluster.testbed.images import context_digest
from tests.cluster.testbed.install import image_values, pod_address
from tests.cluster.testbed.mounts import unmount_below
from tests.cluster.testbed.processes import Record
from tests.cluster.testbed.settings import Layout

SAVED_FIREWALL = """\
*nat
:PREROUTING ACCEPT [0:0]
:DOCKER - [0:0]
:KUBE-SERVICES - [0:0]
:CNI-0123 - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A PREROUTING -j DOCKER
-A POSTROUTING -s 10.244.0.5/32 -m comment --comment "name: \\"batchrun\\" id: \\"a b\\"" -j CNI-0123
-A KUBE-SERVICES -j RETURN
COMMIT
*filter
:DOCKER-USER - [0:0]
-A FORWARD -j DOCKER-USER
COMMIT
"""


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Record]:
    started = processes.spawn(
        "sleeper", ["sleep", "60"], pid_dir=tmp_path / "pid", log_dir=tmp_path / "log", state=tmp_path, extra_env={}
    )
    yield started
    processes.kill(started)


def test_a_started_process_is_recorded_alive_and_can_be_ended(sleeper: Record, tmp_path: Path) -> None:
    record = processes.read_record(tmp_path / "pid", "sleeper")
    assert record == sleeper
    assert processes.is_alive(sleeper)
    processes.kill(sleeper, with_signal=signal.SIGTERM)
    assert not processes.is_alive(sleeper)


@pytest.mark.parametrize("change", [{"start_ticks": 1}, {"boot_id": "another boot"}])
def test_a_recycled_pid_is_never_killed(sleeper: Record, change: dict[str, object]) -> None:
    processes.kill(dataclasses.replace(sleeper, **change))  # type: ignore[arg-type]
    assert processes.is_alive(sleeper)


def test_unrecorded_processes_are_found_by_their_marker(sleeper: Record, tmp_path: Path) -> None:
    processes.record_path(tmp_path / "pid", "sleeper").unlink()
    assert list(processes.marked_pids(tmp_path)) == [sleeper.pid]
    processes.kill_marked(tmp_path)
    assert not processes.is_alive(sleeper)


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"pid": 1})])
def test_a_damaged_record_counts_as_none(tmp_path: Path, text: str) -> None:
    processes.record_path(tmp_path, "etcd").write_text(text)
    assert processes.read_records(tmp_path) == {}


def test_firewall_rules_of_others_are_left_alone() -> None:
    assert removal_rules(SAVED_FIREWALL).splitlines() == [
        "*nat",
        '-D PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
        '-D POSTROUTING -s 10.244.0.5/32 -m comment --comment "name: \\"batchrun\\" id: \\"a b\\"" -j CNI-0123',
        "-F KUBE-SERVICES",
        "-F CNI-0123",
        "-X KUBE-SERVICES",
        "-X CNI-0123",
        "COMMIT",
    ]


def test_only_the_policy_engines_rules_go_where_only_those_are_asked_for() -> None:
    saved = """\
*filter
:INPUT ACCEPT [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-ROUTER-INPUT - [0:0]
:KUBE-POD-FW-ABC - [0:0]
-A INPUT -m comment --comment "kube-router netpol" -j KUBE-ROUTER-INPUT
-A INPUT -j KUBE-FIREWALL
-A KUBE-ROUTER-INPUT -s 10.244.0.9/32 -j KUBE-POD-FW-ABC
COMMIT
"""
    assert removal_rules(saved, POLICY_CHAIN).splitlines() == [
        "*filter",
        '-D INPUT -m comment --comment "kube-router netpol" -j KUBE-ROUTER-INPUT',
        "-F KUBE-ROUTER-INPUT",
        "-F KUBE-POD-FW-ABC",
        "-X KUBE-ROUTER-INPUT",
        "-X KUBE-POD-FW-ABC",
        "COMMIT",
    ]


def test_a_firewall_without_kubernetes_needs_no_change() -> None:
    assert removal_rules("*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -j ACCEPT\nCOMMIT\n") == ""


def test_nothing_mounted_is_nothing_to_unmount(tmp_path: Path) -> None:
    unmount_below(tmp_path)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_family_names_its_programs_and_version(family: Family, tmp_path: Path) -> None:
    assert program_names(family)
    assert family_version(family).startswith("v")
    assert "{" not in "".join(build_flags(family))
    assert cache_dir(family, Layout(cache=tmp_path)).name.startswith(f"{family.name}-")


def test_another_build_flag_is_another_cache_folder(tmp_path: Path) -> None:
    layout, family = Layout(cache=tmp_path), FAMILIES[0]
    other = dataclasses.replace(family, version_variables={})
    assert cache_dir(family, layout) != cache_dir(other, layout)


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("batchrun-runner:dev", "docker.io/library/batchrun-runner:dev"),
        ("team/image:1", "docker.io/team/image:1"),
        ("localhost/image:1", "localhost/image:1"),
        ("example.org:5000/image:1", "example.org:5000/image:1"),
    ],
)
def test_image_names_are_those_that_the_kubelet_asks_for(tag: str, name: str) -> None:
    assert whole_name(tag) == name


def test_context_digest_sees_contents_names_and_modes(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("1")
    digests = [context_digest(tmp_path)]
    file.write_text("2")
    digests.append(context_digest(tmp_path))
    file.chmod(0o755)
    digests.append(context_digest(tmp_path))
    file.rename(tmp_path / "b")
    digests.append(context_digest(tmp_path))
    assert len(set(digests)) == 4
    assert context_digest(tmp_path) == digests[-1]


def test_context_digest_leaves_out_what_dockerignore_keeps_from_the_build(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    (tmp_path / ".dockerignore").write_text("# only\n*\n!kept\n")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "a").write_text("1")
    (tmp_path / "other").write_text("1")
    before = context_digest(tmp_path)
    (tmp_path / "other").write_text("2")
    assert context_digest(tmp_path) == before
    (tmp_path / "kept" / "a").write_text("2")
    assert context_digest(tmp_path) != before


def test_a_kubeconfig_from_outside_is_another_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout(repo=tmp_path)
    layout.public.mkdir()
    found = []
    for value in ("", str(tmp_path / "other"), str(layout.kubeconfig)):
        monkeypatch.setenv("KUBECONFIG", value)
        found.append(given.is_given(layout))
    assert found == [False, True, False]
    layout.given.touch()
    assert given.is_given(layout), "the copy that `up` made of another cluster's kubeconfig"


@pytest.mark.parametrize(
    ("name", "repository", "tag", "digest"),
    [
        ("batchrun-runner:dev", "batchrun-runner", "dev", ""),
        ("example.org:5000/team/runner:1", "example.org:5000/team/runner", "1", ""),
        ("example.org/runner:1@sha256:12", "example.org/runner", "1", "sha256:12"),
    ],
)
def test_an_image_name_is_taken_apart_as_the_chart_wants_it(name: str, repository: str, tag: str, digest: str) -> None:
    values = image_values(name)
    assert (values["repository"], values["tag"], values["digest"]) == (repository, tag, digest)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://192.0.2.7:9000", ("192.0.2.7", 9000)),
        ("http://192.0.2.7", ("192.0.2.7", 80)),
        ("https://192.0.2.7", None),
        ("http://127.0.0.1:7070", None),
    ],
)
def test_a_store_gets_a_service_where_pods_reach_it_by_another_name(url: str, address: tuple[str, int] | None) -> None:
    assert pod_address(url) == address
