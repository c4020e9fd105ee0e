"""Folders of sandboxes on one machine: one for each process of ours, with a folder for each sandbox in it.

A process holds a lock on its folder, which the kernel lets go of however the process ends. So whoever comes next can
tell a folder that is in use from one that a killed process left behind.
"""

import asyncio
import fcntl
import os
import shutil
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from batchrun_api.outcomes import Reason
from batchrun_runner.sandbox.errors import SandboxUnavailable

_PREFIX = "batchrun-"
_UNBORN = ".batchrun-"
_LOCK = "owner.lock"
_ANY_UID_MAY_ENTER = 0o755


class Workspace:
    """The folder of this process, made when a sandbox needs it. `base` None: the machine's temporary folder."""

    def __init__(self, base: Path | None = None) -> None:
        self._base = base or Path(tempfile.gettempdir())
        self._folder: Path | None = None
        self._lock: int | None = None
        self._made = 0
        self._making = threading.Lock()

    def new_folder(self) -> Path:
        """An empty folder that any user may enter. Raises OSError."""
        with self._making:
            if self._folder is None:
                self._folder = self._make()
            folder = self._folder / str(self._made)
            self._made += 1
        folder.mkdir()
        folder.chmod(_ANY_UID_MAY_ENTER)  # any uid of an image must reach the socket
        return folder

    async def sandbox_folder(self) -> Path:
        """The same for a sandbox that is to be opened. Raises SandboxUnavailable."""
        try:
            return await asyncio.to_thread(self.new_folder)
        except OSError as error:
            raise SandboxUnavailable(Reason.SANDBOX_UNAVAILABLE, f"its folder cannot be made: {error}") from error

    def close(self) -> None:
        """Remove everything. May be called again, and used again afterwards."""
        if self._folder is not None:
            remove_tree(self._folder)
            self._folder = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _make(self) -> Path:
        # It gets its name after its lock: nobody may see it between the two and take it for left over.
        unborn = Path(tempfile.mkdtemp(prefix=_UNBORN, dir=self._base))
        self._lock = os.open(unborn / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with suppress(OSError):  # a file system without locks: it will be left alone
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        unborn.chmod(_ANY_UID_MAY_ENTER)
        return unborn.rename(self._base / (_PREFIX + unborn.name.removeprefix(_UNBORN)))


def remove_left_overs(base: Path | None = None) -> int:
    """Remove folders of processes of this user that are gone; returns how many. Never raises."""
    removed = 0
    for folder in (base or Path(tempfile.gettempdir())).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            status = folder.lstat()
            if folder.is_symlink() or status.st_uid != os.geteuid():
                continue
            # Without O_CREAT: a folder that has no lock is none of ours.
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(folder)
                removed += 1
            finally:
                os.close(lock)
    return removed


def remove_tree(folder: Path) -> None:
    """Remove a folder as far as that can be done; commands may have made folders in it that nobody may write."""
    shutil.rmtree(folder, ignore_errors=True)
    if not os.path.lexists(folder):
        return
    for parent, names, _ in os.walk(folder):
        for path in (Path(parent, name) for name in names):
            if not path.is_symlink():
                with suppress(OSError):
                    path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)
