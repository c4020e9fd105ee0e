"""Is the server as a whole down? A circuit breaker (docs/decisions/0007). Pure: time and randomness are arguments."""

from collections.abc import Hashable
from dataclasses import dataclass, field

from batchrun_runner.model.failures import Failure
from batchrun_runner.model.policy import RetryPolicy, wait_seconds


@dataclass
class Outage:
    """Open while calls wait for one of them to find out. All times are on the monotonic clock, in seconds."""

    policy: RetryPolicy
    is_open: bool = False
    since: float = 0.0
    """When it opened; means something while it is open."""
    next_try_at: float = 0.0
    failure: Failure | None = None
    """The last one; None: the last call was answered."""
    _callers: set[Hashable] = field(default_factory=set, init=False)
    _tries: int = field(default=0, init=False)

    def answered(self) -> None:
        """The server said something that is not a fault of its own."""
        self.is_open = False
        self.failure = None
        self._callers.clear()
        self._tries = 0

    def failed(self, caller: Hashable, failure: Failure, now: float, random: float, *, is_try: bool) -> bool:
        """A call brought no answer. True: the server is held to be down, so this is no failure of that caller.

        `is_try`: the call was made to find out; others had started before, and say nothing new once it is open.
        """
        self.failure = failure
        opens = False
        if not self.is_open:
            self._callers.add(caller)
            opens = failure.unreachable or len(self._callers) >= self.policy.outage_callers
            if opens:
                self.is_open, self.since = True, now
                self._callers.clear()
        if opens or (self.is_open and is_try):
            self._tries += 1
            self.next_try_at = now + wait_seconds(self.policy, self._tries, failure.wait_hint_seconds, random)
        return self.is_open

    def is_given_up(self, now: float) -> bool:
        """True: it has lasted too long to wait for it."""
        return self.is_open and now - self.since >= self.policy.outage_seconds
