"""The file that an export becomes: whole, or not there at all; nothing foreign is ever replaced unasked."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from batchrun_runner.export.errors import ExportFailed
from batchrun_runner.storage.folder import sync_file


def check_target(target: Path, source: Path, is_ours: Callable[[Path], bool], *, overwrite: bool) -> None:
    """Refuse, before anything is read, a target that would lose something. Raises ExportFailed.

    `is_ours`: whether a file was written by an earlier export; asked only where there is one.
    """
    if target.is_dir():
        raise ExportFailed(f"{target}: is a folder; name a file with --output")
    if not target.parent.is_dir():
        raise ExportFailed(f"{target.parent}: does not exist; make the folder, or name another file with --output")
    if not target.exists():
        return
    if not target.is_file():
        raise ExportFailed(f"{target}: is no file that could be replaced; name another one with --output")
    if target.samefile(source):
        raise ExportFailed(f"{target}: is what is read; name another file with --output")
    if overwrite or target.stat().st_size == 0 or is_ours(target):
        return
    raise ExportFailed(
        f"{target}: exists and was not written by this export; name another file with --output, or say --overwrite"
    )


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A path beside the target (beside what a link leads to) that takes its place at the end; gone after an error.

    Raises ExportFailed where the disk or the folder does not let us.
    """
    place = target.resolve()
    part = place.with_name(f".{place.name}.{secrets.token_hex(4)}.part")
    try:
        try:
            yield part
            sync_file(part)
            part.replace(place)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise ExportFailed(f"{target}: cannot be written: {error.strerror or error}; nothing was written") from error
