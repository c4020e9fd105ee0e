"""What can go wrong with a store.

    StorageError                     something is wrong with the place or the answer; trying again does not help
    ├── NotFound                     no object has this key
    ├── PreconditionFailed           the object is not (or no longer) what the writer thought: read it again
    ├── RangeMissing                 the object ends before the range that was asked for
    ├── BucketMissing                the bucket or the root folder is not there
    ├── StorageDenied                the store knows us and says no
    │   └── CredentialsInvalid       the store does not accept our keys, or there are none
    └── StorageUnavailable           network, overload, cut answer: already tried again, later may help
        └── StorageFull              a disk or a quota is full: later helps, when there is room

Foreign errors (OSError, botocore's) are wrapped at the adapters' doors; nothing else leaves this package.
"""

from batchrun_api.conditions import Reason


class StorageError(Exception):
    """Base of all. `reason` is the condition's reason; the text names place, cause and fix."""

    reason: Reason = Reason.STORAGE_UNAVAILABLE


class NotFound(StorageError):
    """No object has this key."""


class PreconditionFailed(StorageError):
    """A conditional write lost: somebody else wrote the object first (or our own write's answer was lost)."""


class RangeMissing(StorageError):
    """The object is shorter than the range that was asked for: what told us the range is out of date."""


class BucketMissing(StorageError):
    """The bucket does not exist."""

    reason = Reason.BUCKET_MISSING


class StorageDenied(StorageError):
    """The store refuses this access."""

    reason = Reason.STORAGE_DENIED


class CredentialsInvalid(StorageDenied):
    """Missing, wrong or expired credentials."""

    reason = Reason.INVALID_CREDENTIALS


class InTheWay(StorageError):
    """Something that is none of this run's lies where an object of it must lie."""

    reason = Reason.OUTPUT_IN_USE


class StorageUnavailable(StorageError):
    """The store could not be reached or was overloaded, although it was tried again."""


class StorageFull(StorageUnavailable):
    """There is no room for what shall be written."""
