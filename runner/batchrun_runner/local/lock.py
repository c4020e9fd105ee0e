"""One process at a time in one output folder."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from batchrun_runner.local.inputs import FolderInUse, FolderNotWritable


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Holds the folder for this process; the kernel lets go of it however the process ends. Raises BadInput."""
    try:
        (folder / ".batchrun").mkdir(parents=True, exist_ok=True)
        file = (folder / ".batchrun" / "run.lock").open("w")
    except OSError as error:
        raise FolderNotWritable(f"{folder}: cannot be written: {error.strerror}") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise FolderInUse(
                f"{folder}: another batchrun works here; wait for it, or choose another runName"
            ) from error
        yield
