"""A local folder as a store. Objects are files; they appear by a rename, whole or not at all."""

import errno
import fcntl
import itertools
import os
import shutil
import socket
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from batchrun_runner.storage.errors import (
    PreconditionFailed,
    RangeMissing,
    StorageError,
    StorageUnavailable,
)
from batchrun_runner.storage.os_errors import door
from batchrun_runner.storage.store import Listed, Stored, probe_conditional_writes

_HIDDEN = ".batchrun"
"""Temporary files and the lock lie here, on the same file system as the objects and in no listing."""
_COUNTER = itertools.count()
"""Of all stores of this process: two may work on the same folder."""


def _without_waiting(path: str, flags: int) -> int:
    """A pipe in an object's place would else be waited for, for ever."""
    return os.open(path, flags | os.O_NONBLOCK)


class FolderStore:
    """Objects below `root`, which is made when the first one is written.

    Conditional writes are checked and done under a lock file, which holds between processes of one machine.
    """

    def __init__(self, root: Path, *, survives_power_cut: bool = True) -> None:
        """`survives_power_cut=False`: what is written survives the process, and the machine only most of the time."""
        self._root = root
        self._syncs = survives_power_cut
        self._hidden = root / _HIDDEN
        self._owner = f"{socket.gethostname()}-{os.getpid()}"
        self._conditional: bool | None = None

    @property
    def place(self) -> str:
        """The folder's path."""
        return str(self._root)

    @property
    def reads_at_once(self) -> int:
        """One: the page cache does not wait, and threads would only pass the bytes around."""
        return 1

    @property
    def scratch(self) -> Path:
        """A place for this process's temporary files on the same file system: `upload(consume=True)` is a rename."""
        path = self._hidden / "scratch" / self._owner
        path.mkdir(parents=True, exist_ok=True)
        return path

    def get(self, key: str) -> Stored:
        """See ObjectStore."""
        with door(key), open(self._path(key), "rb", buffering=0, opener=_without_waiting) as file:
            return Stored(file.read(), _etag(os.fstat(file.fileno())))

    def get_range(self, key: str, offset: int, length_bytes: int) -> bytes:
        """See ObjectStore."""
        body = bytearray(length_bytes)
        self.read_into(key, offset, memoryview(body))
        return bytes(body)

    def read_into(self, key: str, offset: int, buffer: memoryview) -> None:
        """See ObjectStore."""
        with door(key), self._path(key).open("rb") as file:
            file.seek(offset)
            filled = file.readinto(buffer)
        if filled < len(buffer):
            raise RangeMissing(f"{self._path(key)} ends before byte {offset + len(buffer)}")

    def head(self, key: str) -> Listed | None:
        """See ObjectStore."""
        with door(key):
            try:
                status = self._path(key).stat()
            except (FileNotFoundError, NotADirectoryError):
                return None
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(self._path(key)))
        return Listed(key, status.st_size, _etag(status))

    def put(
        self, key: str, body: bytes, *, if_match: str | None = None, if_none_match: bool = False, durable: bool = True
    ) -> str:
        """See ObjectStore."""
        with door(key), self._temporary() as temporary:
            with temporary.open("wb", buffering=0) as file:
                _write_all(file.fileno(), body)
                if body and durable and self._syncs:
                    os.fsync(file.fileno())
            return self._publish(temporary, key, if_match, if_none_match)

    def listing(self, prefix: str = "") -> Iterator[Listed]:
        """See ObjectStore."""
        folder = prefix.rpartition("/")[0]
        with door(prefix):
            found = list(_walk(self._root / folder, f"{folder}/" if folder else "", prefix))
        found.sort(key=lambda item: item.key)
        return iter(found)

    def delete(self, keys: Iterable[str]) -> None:
        """See ObjectStore. Folders that become empty go, too."""
        folders = set()
        for key in keys:
            path = self._path(key)
            with door(key):
                path.unlink(missing_ok=True)
            folders.add(path.parent)
        for folder in folders:
            self._remove_if_empty(folder)

    def download(self, key: str, path: Path) -> None:
        """See ObjectStore."""
        temporary = path.with_name(f".{path.name}.{self._owner}.part")
        with door(key):
            try:
                shutil.copyfile(self._path(key), temporary)
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)

    def upload(
        self,
        path: Path,
        key: str,
        *,
        if_match: str | None = None,
        if_none_match: bool = False,
        consume: bool = False,
        durable: bool = True,
    ) -> str:
        """See ObjectStore."""
        with door(key), self._temporary() as temporary:
            if not (consume and _moved(path, temporary)):
                shutil.copyfile(path, temporary)
            if durable and self._syncs:
                sync_file(temporary)
            return self._publish(temporary, key, if_match, if_none_match)

    def honours_conditions(self) -> bool:
        """See ObjectStore. False on file systems without locks."""
        if self._conditional is None:
            self._conditional = probe_conditional_writes(self)
        return self._conditional

    def sweep(self) -> None:
        """Remove temporary files of processes of this machine that are gone."""
        with suppress(OSError):
            for file in (self._hidden / "tmp").iterdir():
                if self._is_of_the_dead(file.name.rpartition(".")[0]):
                    file.unlink(missing_ok=True)
        with suppress(OSError):
            for folder in (self._hidden / "scratch").iterdir():
                if self._is_of_the_dead(folder.name):
                    shutil.rmtree(folder, ignore_errors=True)

    def _is_of_the_dead(self, owner: str) -> bool:
        """Whether this names a process that ran on this machine and is gone."""
        host, _, _ = self._owner.rpartition("-")
        name, _, pid = owner.rpartition("-")
        return name == host and pid.isdigit() and not Path(f"/proc/{pid}").exists()

    def _path(self, key: str) -> Path:
        parts = key.split("/")
        if "\0" in key or any(not part or part.startswith(".") for part in parts):
            raise StorageError(f"{key!r} cannot be the key of an object")
        return self._root.joinpath(*parts)

    @contextmanager
    def _temporary(self) -> Iterator[Path]:
        path = self._hidden / "tmp" / f"{self._owner}.{next(_COUNTER)}"
        _make_folder(path.parent)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _publish(self, temporary: Path, key: str, if_match: str | None, if_none_match: bool) -> str:
        """Rename into place; under the lock, so that no write slips in between a condition and its rename."""
        path = self._path(key)
        etag = _etag(temporary.stat())
        is_conditional = if_none_match or if_match is not None
        with self._lock(exclusive=is_conditional):
            if is_conditional:
                current = self.head(key)
                if (if_none_match and current is not None) or (
                    if_match is not None and (current is None or current.etag != if_match)
                ):
                    raise PreconditionFailed(f"{path} was written by somebody else")
            _rename_into(temporary, path)
        return etag

    @contextmanager
    def _lock(self, *, exclusive: bool) -> Iterator[None]:
        lock = os.open(self._hidden / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
            except OSError:
                # A file system without locks: unconditional writes go on, conditional ones must not pretend.
                if exclusive:
                    raise
            yield
        finally:
            os.close(lock)

    def _remove_if_empty(self, folder: Path) -> None:
        with suppress(OSError):
            while folder != self._root:
                folder.rmdir()
                folder = folder.parent


def _etag(status: os.stat_result) -> str:
    # Every write makes a new file, so inode, time and size together name a version.
    return f"{status.st_mtime_ns:x}-{status.st_ino:x}-{status.st_size:x}"


def _write_all(descriptor: int, body: bytes) -> None:
    view = memoryview(body)
    while view:
        view = view[os.write(descriptor, view) :]


def sync_file(path: Path) -> None:
    """What is in the file survives a power cut from now on."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _moved(path: Path, target: Path) -> bool:
    try:
        path.rename(target)
    except OSError:  # another file system
        return False
    return True


def _rename_into(temporary: Path, path: Path) -> None:
    for _ in range(100):
        _make_folder(path.parent)
        try:
            temporary.rename(path)
        except FileNotFoundError:
            # Somebody removed the empty folder in between.
            if not temporary.exists():
                raise
        else:
            return
    raise StorageUnavailable(f"{path.parent} vanishes each time it is made")


def _make_folder(folder: Path) -> None:
    """Raises FileExistsError with the name of what is in the way."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except NotADirectoryError as error:
        file = next(parent for parent in folder.parents if parent.exists())
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(file)) from error


def _walk(folder: Path, key_prefix: str, prefix: str) -> Iterator[Listed]:
    try:
        entries = list(os.scandir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        key = key_prefix + entry.name
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            if (key + "/").startswith(prefix) or prefix.startswith(key + "/"):
                yield from _walk(folder / entry.name, key + "/", prefix)
        elif key.startswith(prefix):
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue
            yield Listed(key, status.st_size, _etag(status))
