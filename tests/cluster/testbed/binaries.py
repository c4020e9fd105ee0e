"""The cluster's programs and the S3 server, built from Go modules and cached outside the checkout.

One folder per family under `modules/`: its go.mod pins the versions and lists the programs by `tool` lines. One module
for all would not do, their dependencies disagree. To add a family: write `modules/<name>/go.mod` with a `require` and
`tool` lines, run `go mod tidy` there, and add a line to FAMILIES. A family may have a program of its own (`*.go`).
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.testbed.errors import HostError
from tests.cluster.testbed.mounts import fresh_building_dir
from tests.cluster.testbed.settings import TESTBED_DIR, Layout
from tests.cluster.testbed.shell import SEARCH_PATH, locked, run, say

MODULES_DIR = TESTBED_DIR / "modules"


@dataclass(frozen=True)
class Family:
    """A Go module whose tools are built together.

    `version_variables` are set at link time; `{version}`, `{major}` and `{minor}` come from go.mod's line for
    `version_module`. `renames` maps what Go calls a program to what we call it.
    """

    name: str
    version_module: str
    version_variables: Mapping[str, str] = field(default_factory=dict)
    renames: Mapping[str, str] = field(default_factory=dict)

    @property
    def module_dir(self) -> Path:
        return MODULES_DIR / self.name

    def go_mod(self) -> str:
        return (self.module_dir / "go.mod").read_text()


_KUBE_VERSION = "k8s.io/component-base/version"
FAMILIES = (
    Family(
        "kubernetes",
        "k8s.io/kubernetes",
        version_variables={
            f"{_KUBE_VERSION}.gitVersion": "{version}",
            f"{_KUBE_VERSION}.gitMajor": "{major}",
            f"{_KUBE_VERSION}.gitMinor": "{minor}",
        },
    ),
    Family("etcd", "go.etcd.io/etcd/server/v3", renames={"server": "etcd"}),
    Family(
        "helm",
        "helm.sh/helm/v4",
        version_variables={"helm.sh/helm/v4/internal/version.version": "{version}"},
    ),
    Family("coredns", "github.com/coredns/coredns"),
    Family("kube-router", "github.com/cloudnativelabs/kube-router/v2"),
    Family("versitygw", "github.com/versity/versitygw", version_variables={"main.Version": "{version}"}),
)


def family_version(family: Family) -> str:
    """Like `v1.37.2`, from go.mod."""
    found = re.search(rf"^\s*(?:require )?{re.escape(family.version_module)} (v\S+)", family.go_mod(), re.MULTILINE)
    if found is None:
        raise HostError(f"{family.module_dir}/go.mod does not require {family.version_module}")
    return found[1]


def program_names(family: Family) -> list[str]:
    """The programs of a family by our names, from go.mod's tool lines."""
    text = family.go_mod()
    blocks = "\n".join(re.findall(r"^tool \((.*?)^\)", text, re.MULTILINE | re.DOTALL))
    paths = blocks.split() + re.findall(r"^tool ([^(\s]+)", text, re.MULTILINE)
    # Go names a program after its folder, or the folder above where that is only a major version.
    names = [re.sub(r"/v\d+$", "", path).rpartition("/")[2] for path in paths]
    return [family.renames.get(name, name) for name in names]


def build_flags(family: Family) -> list[str]:
    version = family_version(family)
    major, minor = version.lstrip("v").split(".")[:2]
    values = {"version": version, "major": major, "minor": minor}
    variables = [f"-X {name}={text.format(**values)}" for name, text in family.version_variables.items()]
    return ["-trimpath", f"-ldflags={' '.join(['-s -w', *variables])}"]


def cache_dir(family: Family, layout: Layout) -> Path:
    """`<family>-<digest>`: another dependency, source, flag or machine type is another folder."""
    digest = hashlib.sha256()
    for part in (
        family.go_mod().encode(),
        (family.module_dir / "go.sum").read_bytes(),
        "\0".join(build_flags(family)).encode(),
        platform.machine().encode(),
    ):
        digest.update(hashlib.sha256(part).digest())
    for source in sorted(family.module_dir.glob("*.go")):
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    return layout.cache / f"{family.name}-{digest.hexdigest()[:16]}"


def go_program() -> str:
    found = shutil.which("go", path=os.pathsep.join((SEARCH_PATH, "/usr/local/go/bin")))
    if found is None:
        raise HostError("Go is needed to build the cluster's programs and is not on the PATH")
    return found


def _build(family: Family, target: Path) -> None:
    """Build beside the target and rename: an interrupted build leaves nothing that looks whole."""
    building = fresh_building_dir(target.parent, family.name)
    run(
        [go_program(), "build", *build_flags(family), "-o", f"{building}/", "tool"],
        cwd=family.module_dir,
        extra_env={"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off"},
    )
    for built, ours in family.renames.items():
        (building / built).rename(building / ours)
    building.rename(target)


def ensure_family(family: Family, layout: Layout) -> dict[str, Path]:
    """Program name → path of one family, built if the cache lacks it. Safe with several builders at a time."""
    target = cache_dir(family, layout)
    if not target.is_dir():
        with locked(layout.cache / f".lock-{family.name}"):
            if not target.is_dir():
                say(f"building {family.name} {family_version(family)} (minutes, once)")
                _build(family, target)
                say(f"built {family.name}")
    return {name: target / name for name in program_names(family)}


def ensure_binaries(layout: Layout, families: Sequence[Family] = FAMILIES) -> dict[str, Path]:
    """Program name → path for all families."""
    return {name: path for family in families for name, path in ensure_family(family, layout).items()}
