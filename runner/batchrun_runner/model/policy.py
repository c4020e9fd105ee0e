"""What is repeated after a failed attempt, how often and when, as data. Time and randomness are arguments."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from batchrun_api.outcomes import Reason


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How a model call is repeated. Rate limits and outages of the whole server are waited for and not counted."""

    attempts: Mapping[Reason, int] = field(default_factory=lambda: {Reason.PROVIDER_ERROR: 8, Reason.TIMEOUT: 3})
    """For each repeatable reason, how many attempts may end with it before the call fails; a reason that is not here is
    not repeated."""
    first_wait_seconds: float = 0.5
    """Before the second attempt; doubled for each further one."""
    longest_wait_seconds: float = 30.0
    """Where the doubling ends."""
    longest_rate_wait_seconds: float = 8.0
    """The same after a 429 without a hint: short, for the pace must recover soon after a storm."""
    hint_cap_seconds: float = 300.0
    """A server that asks to wait longer than this is asked again after this time all the same."""
    budget_seconds: float = 1800.0
    """For the attempts that are counted and their waits: none begins that would end after it."""
    outage_callers: int = 3
    """So many prompts must fail in a row for the server to be held to be down, where it can be reached at all."""
    outage_seconds: float = 600.0
    """How long an outage is waited for, from the first failure on."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Time and randomness, as arguments."""

    monotonic: Callable[[], float]
    wall_clock: Callable[[], float]
    """Seconds since the epoch."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = lambda: 0.5
    """A number from 0 up to 1."""


def wait_seconds(
    policy: RetryPolicy, failures: int, hint_seconds: float | None, random: float, longest_seconds: float | None = None
) -> float:
    """The wait after this many failures (from 1): half to whole of the doubled step, or the hint and a bit more.

    The bit spreads callers that were all told the same time; the hint is a floor up to the policy's cap.
    `longest_seconds`: where the doubling ends; None: the policy's.
    """
    longest = policy.longest_wait_seconds if longest_seconds is None else longest_seconds
    step = min(policy.first_wait_seconds * 2.0 ** min(failures - 1, 30), longest)
    jittered = step * (0.5 + 0.5 * random)
    if hint_seconds is None:
        return jittered
    return max(jittered, min(hint_seconds, policy.hint_cap_seconds) + min(step, 1.0) * random)
