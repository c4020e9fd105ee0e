"""Unmounting before deleting: to delete a folder through a live mount would delete somebody else's files."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from tests.cluster.testbed.shell import succeeds, wait_until


def _unescape(field: str) -> str:
    """The kernel writes blanks and backslashes in mount points as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), field)


def unmount_below(*roots: Path) -> None:
    """Unmount everything below `roots` (not the roots themselves), deepest first; NotReadyError if that fails."""
    ours = tuple(f"{root}/" for root in roots)

    def none_left() -> bool:
        lines = Path("/proc/mounts").read_text().splitlines()
        points = [point for line in lines if (point := _unescape(line.split(" ")[1])).startswith(ours)]
        for point in sorted(points, reverse=True):
            succeeds(["umount", "--lazy", point])
        return not points

    wait_until(f"unmounting below {', '.join(map(str, roots))}", none_left, timeout_seconds=20)


def fresh_building_dir(parent: Path, name: str) -> Path:
    """A new empty folder to build `name` in; those of interrupted builds are removed. Call it under the lock.

    Each build has its own: the compiler of a killed build may still be running and writing in the old one.
    """
    parent.mkdir(parents=True, exist_ok=True)
    for older in parent.glob(f".building-{name}-*"):
        unmount_below(older)  # debootstrap mounts /proc and /sys in its folder
        shutil.rmtree(older, ignore_errors=True)
    return Path(tempfile.mkdtemp(dir=parent, prefix=f".building-{name}-"))
