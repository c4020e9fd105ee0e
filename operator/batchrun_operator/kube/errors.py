"""What the API server can answer, by what there is to do about it.

::

    KubeError
    ├── NotFound        it is gone
    ├── AlreadyExists   it is there: look whose it is
    ├── Conflict        somebody was faster: look again
    ├── Refused         policy, quota, permission or validation; the same request will be refused again for now
    └── Unavailable     no answer, or not now: retry later
"""

from collections.abc import Mapping
from typing import Any

_MESSAGE_LIMIT_CHARS = 2000


class KubeError(Exception):
    """An API call that did not do what was asked."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        """HTTP status, 0: no answer."""
        self.reason = reason
        self.message = message


class NotFound(KubeError):
    """404."""


class AlreadyExists(KubeError):
    """409 on creation."""


class Conflict(KubeError):
    """409 on a change: the object changed in between, or is another one of the same name."""


class Refused(KubeError):
    """400, 403, 422."""


class Unavailable(KubeError):
    """Everything else: 401, 410, 429, 5xx, no answer."""


def error_of(status: int, body: Mapping[str, Any]) -> KubeError:
    """The error for a response with this HTTP status and `Status` body."""
    reason = str(body.get("reason") or "Unknown")
    message = str(body.get("message") or "")[:_MESSAGE_LIMIT_CHARS]
    kind: type[KubeError]
    if status == 404:
        kind = NotFound
    elif status == 409:
        kind = AlreadyExists if reason == "AlreadyExists" else Conflict
    elif status in (400, 403, 422):
        kind = Refused
    else:
        kind = Unavailable
    return kind(status, reason, message)
