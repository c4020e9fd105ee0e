"""What can be wrong with a data set as a whole. Faults of one row are data: `rows.InvalidRow`.

DatasetError             nothing was run; the message names place and fix
├── DatasetUnreadable    it is not there, cannot be reached, or is not text that we read
└── DatasetInvalid       it holds rows that cannot be used, or none that can
"""

from batchrun_api.conditions import Reason


class DatasetError(Exception):
    """Base of both."""

    reason: Reason = Reason.DATASET_INVALID


class DatasetUnreadable(DatasetError):
    """The bytes cannot be had or are of another format."""

    reason = Reason.DATASET_UNREADABLE


class DatasetInvalid(DatasetError):
    """Rows are wrong."""

    reason = Reason.DATASET_INVALID
