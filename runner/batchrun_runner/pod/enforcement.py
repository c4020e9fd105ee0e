"""Whether the cluster keeps this pod in: found out by a connection, not believed (docs/decisions/0015).

What must not be reached is the API server's Service, whose address is in every pod's environment. Engines take seconds
to know a new pod, so an answer is asked for again; one that stays is a policy that nobody enforces.
"""

import asyncio
import errno
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto

import structlog

from batchrun_api.conditions import Reason
from batchrun_runner.stopping import Stop

ENV_HOST = "KUBERNETES_SERVICE_HOST"
ENV_PORT = "KUBERNETES_SERVICE_PORT"

_REFUSALS = frozenset(
    {
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
        errno.EACCES,
        errno.EPERM,
    }
)
"""How engines turn a connection down. Any other error is one of ours and proves nothing."""
_SILENT_TRIES = 2
"""A single time-out may be a busy machine."""
_LOG = structlog.get_logger(__name__)


class NetworkNotEnforced(Exception):
    """This pod reaches what its NetworkPolicy forbids."""

    reason = Reason.NETWORK_NOT_ENFORCED


@dataclass(frozen=True, slots=True)
class Patience:
    """How long an engine may take."""

    total_seconds: float = 30.0
    try_seconds: float = 2.0
    pause_seconds: float = 0.5


class Answer(Enum):
    """What became of a connection."""

    CONNECTED = auto()
    REFUSED = auto()
    SILENT = auto()
    UNKNOWN = auto()


async def wait_until_enforced(
    environ: Mapping[str, str],
    stop: Stop,
    patience: Patience = Patience(),
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Return once the API server is out of reach, or when the stop is asked for. Raises NetworkNotEnforced."""
    host, port = environ.get(ENV_HOST, ""), environ.get(ENV_PORT, "")
    if not host or not port.isdecimal():
        raise NetworkNotEnforced(f"it cannot be tried: {ENV_HOST} and {ENV_PORT} are not in the runner's environment")
    start, silent, answers = monotonic(), 0, 0
    while not stop.is_asked:
        answer = await ask(host, int(port), patience.try_seconds)
        silent = silent + 1 if answer is Answer.SILENT else 0
        answers += 1
        waited = monotonic() - start
        if answer is Answer.REFUSED or silent >= _SILENT_TRIES:
            _LOG.info("the network is enforced", seconds=round(waited, 3), tries=answers)
            return
        if silent:
            continue
        if waited >= patience.total_seconds:
            does = "still answers" if answer is Answer.CONNECTED else "can neither be reached nor found blocked"
            raise NetworkNotEnforced(f"the API server at {host}:{port} {does} after {waited:.0f} s")
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait_now(), patience.pause_seconds)


async def ask(host: str, port: int, seconds: float) -> Answer:
    """Connect, and say what became of it."""
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        return Answer.SILENT
    except OSError as error:
        if error.errno == errno.ETIMEDOUT:
            return Answer.SILENT
        return Answer.REFUSED if error.errno in _REFUSALS else Answer.UNKNOWN
    writer.close()
    return Answer.CONNECTED
