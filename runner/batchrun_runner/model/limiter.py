"""How many calls may be under way, learned from 429 (docs/decisions/0007). Pure: time and randomness are arguments."""

import math
from dataclasses import dataclass, field

from batchrun_runner.model.policy import RetryPolicy, wait_seconds

_HALF = 0.5
"""What is left of the limit by a 429 that follows on another one."""
_GOOD_SHARE = 0.7
"""The same by the first one; up to here the limit then doubles, from here on it feels its way."""
_GROWTH_SHARE = 0.1


@dataclass
class RateLimiter:
    """Additive increase, multiplicative decrease. All times are on the monotonic clock, in seconds."""

    policy: RetryPolicy
    limit: float = math.inf
    """Calls that may be under way; at least one may."""
    closed_until: float = 0.0
    """No call starts before."""
    round: int = 0
    """Counts decreases. A call that started in an earlier one says nothing about the present limit."""
    _known_good: float = field(default=math.inf, init=False)
    _refusals: int = field(default=0, init=False)
    """Decreases since the last answer."""

    def has_room(self, under_way: int) -> bool:
        """True: one more call may start, as far as the number goes."""
        return under_way == 0 or under_way + 1 <= self.limit

    def answered(self) -> None:
        """A call was answered: the limit grows, at most doubling with each round of calls."""
        self._refusals = 0
        if self.limit < self._known_good:
            self.limit += 1
        elif math.isfinite(self.limit):
            self.limit += max(1 / self.limit, _GROWTH_SHARE)

    def refused(self, call_round: int, under_way: int, hint_seconds: float | None, now: float, random: float) -> float:
        """A call that started in `call_round` got a 429. Returns the seconds until the next call may start."""
        is_news = call_round == self.round
        if is_news:
            self.round += 1
            working = min(self.limit, under_way)
            self.limit = max(1.0, working * (_HALF if self._refusals else _GOOD_SHARE))
            if self._refusals == 0:
                self._known_good = self.limit
            self._refusals += 1
        hint = None if hint_seconds is None else min(hint_seconds, self.policy.hint_cap_seconds)
        longest = self.policy.longest_rate_wait_seconds
        wait = wait_seconds(self.policy, max(1, self._refusals), hint, random, longest)
        if is_news or hint is not None:
            self.closed_until = max(self.closed_until, now + wait)
        return max(0.0, self.closed_until - now)
