"""What only a folder can get wrong."""

import os
from pathlib import Path

import pytest

from batchrun_runner.storage.errors import StorageDenied, StorageError
from batchrun_runner.storage.folder import FolderStore


def test_a_write_that_dies_in_the_middle_leaves_no_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = FolderStore(tmp_path / "run")
    store.put("a", b"old")

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", dies)
    with pytest.raises(KeyboardInterrupt):
        store.put("a", b"new and longer")
    assert store.get("a").body == b"old"
    assert [item.key for item in store.listing()] == ["a"]


def test_what_dead_processes_left_is_swept_and_what_living_ones_use_stays(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "run")
    store.put("a", b"1")
    hidden, host = tmp_path / "run" / ".batchrun", os.uname().nodename
    dead, living = hidden / "tmp" / f"{host}-4194399.7", hidden / "tmp" / f"{host}-{os.getpid()}.99"
    dead.touch()
    living.touch()
    dead_merge = hidden / "scratch" / f"{host}-4194399" / "tmp1"
    dead_merge.mkdir(parents=True)
    (dead_merge / "trajectories.jsonl").write_bytes(b"half")
    (store.scratch / "ours").touch()
    store.sweep()
    assert not dead.exists()
    assert not dead_merge.parent.exists()
    assert living.exists()
    assert (store.scratch / "ours").exists()


@pytest.mark.parametrize("key", ["../outside", "/absolute", "a//b", ".hidden", "a/../b", ""])
def test_keys_that_lead_elsewhere_are_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(StorageError):
        FolderStore(tmp_path / "run").put(key, b"x")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StorageDenied, match=str(tmp_path)):
        FolderStore(tmp_path / "run").put("a", b"x")


def test_empty_folders_go_with_their_last_object(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "run")
    store.put("parts/batch_0/a", b"x")
    store.delete(["parts/batch_0/a"])
    assert not (tmp_path / "run" / "parts").exists()
