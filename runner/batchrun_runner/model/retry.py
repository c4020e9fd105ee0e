"""What is repeated after a failed attempt, how often and when: data, and the loop that follows it.

Repeatable is what `failures` says is (408, 409, 429, 5xx, lost connections, timeouts, error bodies with such codes); a
reason that has no entry in `attempts` is never repeated.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from batchrun_api.outcomes import Reason
from batchrun_runner.model.errors import model_error
from batchrun_runner.model.failures import Failure


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How a model call is repeated."""

    attempts: Mapping[Reason, int] = field(
        default_factory=lambda: {Reason.RATE_LIMITED: 60, Reason.PROVIDER_ERROR: 6, Reason.TIMEOUT: 3}
    )
    """For each repeatable reason, how many attempts may end with it before the call fails."""
    first_wait_seconds: float = 0.5
    """Before the second attempt; doubled for each further one."""
    longest_wait_seconds: float = 30.0
    """Where the doubling ends."""
    hint_cap_seconds: float = 300.0
    """A server that asks to wait longer than this fails the call at once; resume tries again later."""
    budget_seconds: float = 1800.0
    """From the first attempt on: no wait begins that would end after it."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Time and randomness, as arguments."""

    monotonic: Callable[[], float]
    wall_clock: Callable[[], float]
    """Seconds since the epoch."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = lambda: 0.5
    """A number from 0 up to 1."""


def wait_seconds(policy: RetryPolicy, failures: int, hint_seconds: float | None, random: float) -> float:
    """The wait after this many failures (from 1): half to whole of the doubled step, or the hint and a bit more.

    The bit spreads callers that were all told the same time; the hint is a floor.
    """
    step = min(policy.first_wait_seconds * 2.0 ** min(failures - 1, 30), policy.longest_wait_seconds)
    jittered = step * (0.5 + 0.5 * random)
    return jittered if hint_seconds is None else max(jittered, hint_seconds + min(step, 1.0) * random)


_T = TypeVar("_T")


async def until_done(attempt: Callable[[], Awaitable[_T | Failure]], policy: RetryPolicy, around: Surroundings) -> _T:
    """The first result of `attempt` that is no failure. Raises ModelError for one that is not repeated (again)."""
    start = around.monotonic()
    counts: dict[Reason, int] = {}
    while True:
        result = await attempt()
        if not isinstance(result, Failure):
            return result
        counts[result.reason] = counts.get(result.reason, 0) + 1
        allowed = policy.attempts.get(result.reason, 1) if result.repeatable else 1
        if counts[result.reason] >= allowed:
            raise model_error(result.reason, _told(result, sum(counts.values())))
        hint = result.wait_hint_seconds
        if hint is not None and hint > policy.hint_cap_seconds:
            raise model_error(result.reason, f"{result.message} (asks to wait {hint:.0f} s)")
        wait = wait_seconds(policy, sum(counts.values()), hint, around.random())
        if around.monotonic() - start + wait > policy.budget_seconds:
            raise model_error(result.reason, _told(result, sum(counts.values())))
        await around.sleep(wait)


def _told(failure: Failure, attempts: int) -> str:
    return failure.message if attempts == 1 else f"{failure.message} ({attempts} attempts)"
