"""Folders of killed processes go, and nobody else's."""

import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchrun_runner.sandbox.workspace import Workspace, remove_left_overs

LIVES = """
import signal, sys
from pathlib import Path
from batchrun_runner.sandbox.workspace import Workspace
print(Workspace(Path(sys.argv[1])).new_folder(), flush=True)
signal.pause()
"""


def start(base: Path) -> tuple[subprocess.Popen[str], Path]:
    """A process that holds a workspace, and its sandbox's folder."""
    process = subprocess.Popen([sys.executable, "-c", LIVES, str(base)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_has_is_not(tmp_path: Path) -> None:
    (killed, its), (living, others) = start(tmp_path), start(tmp_path)
    with killed, living:
        try:
            assert remove_left_overs(tmp_path) == 0
            killed.send_signal(signal.SIGKILL)
            killed.wait(10)

            assert remove_left_overs(tmp_path) == 1
            assert not its.parent.exists()
            assert others.is_dir()
        finally:
            living.kill()


def test_a_folder_that_has_no_lock_or_is_a_link_is_none_of_ours(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "owner.lock").touch()
    base = tmp_path / "base"
    (base / "batchrun-notes").mkdir(parents=True)
    (base / "batchrun-link").symlink_to(elsewhere)
    (base / "batchrun-file").touch()
    before = sorted(base.iterdir())

    assert remove_left_overs(base) == 0
    assert sorted(base.iterdir()) == before
    assert elsewhere.is_dir()


def test_a_workspace_that_is_closed_leaves_nothing_and_can_be_used_again(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    one, two = workspace.new_folder(), workspace.new_folder()
    assert one != two
    assert one.parent == two.parent
    assert one.stat().st_mode & 0o777 == one.parent.stat().st_mode & 0o777 == 0o755
    assert remove_left_overs(tmp_path) == 0, "it is in use"

    workspace.close()
    assert list(tmp_path.iterdir()) == []
    assert workspace.new_folder().is_dir()
    workspace.close()
    workspace.close()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user reaches, unlike tmp_path."""
    with tempfile.TemporaryDirectory(prefix="br-") as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


def test_folders_that_nobody_may_write_are_removed_and_links_are_not_followed(open_folder: Path) -> None:
    outside = open_folder / "outside"
    tree = open_folder / "tree"
    made = f"""
import os
from pathlib import Path
from batchrun_runner.sandbox.workspace import remove_tree
if os.geteuid() == 0:
    os.setuid(65534)  # for root, modes do not count
outside, tree = Path({str(outside)!r}), Path({str(tree)!r})
outside.mkdir(mode=0o500)
(tree / "closed" / "inner").mkdir(parents=True)
(tree / "closed" / "file").touch()
(tree / "link").symlink_to(outside)
(tree / "closed").chmod(0o500)
remove_tree(tree)
"""
    subprocess.run([sys.executable, "-c", made], check=True)

    assert not tree.exists()
    assert outside.stat().st_mode & 0o777 == 0o500
