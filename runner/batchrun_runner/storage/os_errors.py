"""The operating system's errors as those of a store."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from batchrun_runner.storage.errors import InTheWay, NotFound, StorageDenied, StorageFull, StorageUnavailable

DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Numbers of OSErrors that say that a disk or a quota is full."""


@contextmanager
def door(key: str) -> Iterator[None]:
    """OSErrors of an object's file leave as our own, with the names of what is in the way."""
    try:
        yield
    except IsADirectoryError as error:
        place = error.filename2 or error.filename or key
        raise InTheWay(f"{place} is a folder where a file of this run must lie; move it away") from error
    except FileExistsError as error:
        raise InTheWay(f"{error.filename} is a file where a folder of this run must lie; move it away") from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"{error.filename or key} is not there") from error
    except PermissionError as error:
        raise StorageDenied(f"{error.filename or key}: permission denied; mend the folder's owner or mode") from error
    except OSError as error:
        kind = StorageFull if error.errno in DISK_FULL else StorageUnavailable
        raise kind(f"{error.filename or key}: {error.strerror or error}") from error
