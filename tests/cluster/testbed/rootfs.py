"""A Debian root file system with Python, made once by debootstrap and cached as a tar file."""

from __future__ import annotations

import hashlib
import platform
import shutil
from pathlib import Path

from tests.cluster.testbed.errors import CommandError
from tests.cluster.testbed.mounts import fresh_building_dir, unmount_below
from tests.cluster.testbed.settings import Layout
from tests.cluster.testbed.shell import locked, run, say

SUITE = "bookworm"
PACKAGES = ("ca-certificates", "python3-pip", "python3-venv")
# What no test needs; the image is copied around often.
_DROPPED = (
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
    "var/cache/apt",
    "var/lib/apt/lists",
)
_RECIPE_VERSION = "1"


def _mirror() -> list[str]:
    """Where this machine's own apt gets the suite from; nothing (debootstrap's default) when apt does not know."""
    try:
        lines = run(["apt-get", "indextargets", "--format", "$(RELEASE) $(REPO_URI)", "Created-By: Packages"])
    except CommandError:
        return []
    return [uri for release, uri in (line.split() for line in lines.splitlines()) if release == SUITE][:1]


def _like_the_official_image(root: Path) -> None:
    """`python` exists and pip installs for the whole system, as in docker.io/library/python."""
    (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    for marker in root.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        marker.unlink()
    for name in _DROPPED:
        for entry in (root / name).iterdir() if (root / name).is_dir() else ():
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()


def ensure_rootfs(layout: Layout) -> Path:
    """A folder that holds `rootfs.tar` and nothing else; its name is the recipe's digest. Minutes, once."""
    recipe = "\0".join((SUITE, *PACKAGES, *_DROPPED, platform.machine(), _RECIPE_VERSION))
    target = layout.cache / f"python-base-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
    if target.is_dir():
        return target
    with locked(layout.cache / ".lock-python-base"):
        if not target.is_dir():
            say("making the Python base (minutes, once)")
            building = fresh_building_dir(layout.cache, "python-base")
            root, done = building / "root", building / "done"
            done.mkdir()
            variant = ["--variant=minbase", f"--include={','.join(PACKAGES)}"]
            run(["debootstrap", *variant, SUITE, root, *_mirror()])
            _like_the_official_image(root)
            # /dev is the container runtime's; device nodes would need rights that an unpacker may lack.
            run(["tar", "-C", root, "--numeric-owner", "--exclude=./dev/*", "-cf", done / "rootfs.tar", "."])
            done.rename(target)
            unmount_below(building)
            shutil.rmtree(building)
    return target
