"""Asking until there is an answer, as the policy says.

Repeatable is what `failures` says is (408, 409, 429, 5xx, lost connections, timeouts, error bodies with such codes). A
rate limit or an outage of the whole server is waited for at the gate and counts as no attempt.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from batchrun_api.outcomes import Reason
from batchrun_runner.model.errors import ModelError, model_error
from batchrun_runner.model.failures import Failure
from batchrun_runner.model.gate import Caller, Gate
from batchrun_runner.model.policy import RetryPolicy, Surroundings, wait_seconds

_T = TypeVar("_T")
Attempt = Callable[[], Awaitable[_T | Failure]]


async def until_done(attempt: Attempt[_T], policy: RetryPolicy, around: Surroundings, gate: Gate, caller: Caller) -> _T:
    """The first result of `attempt` that is no failure. Raises ModelError for one that is not repeated (again)."""
    counted = _Counted(policy, around)
    while True:
        await gate.enter(caller)
        start = around.monotonic()
        try:
            result = await attempt()
        except BaseException:
            gate.abandon(caller)
            raise
        if not isinstance(result, Failure):
            gate.leave(caller, None)
            return result
        caller.held(result)
        if gate.leave(caller, result):
            continue
        await around.sleep(counted.wait_after(result, start))


class _Counted:
    """The failures of one call that are its own."""

    def __init__(self, policy: RetryPolicy, around: Surroundings) -> None:
        self._policy = policy
        self._around = around
        self._by_reason: dict[Reason, int] = {}
        self._spent_seconds = 0.0

    def wait_after(self, failure: Failure, start: float) -> float:
        """Seconds to wait before the next attempt, the failed one having begun at `start`. Raises ModelError."""
        self._by_reason[failure.reason] = self._by_reason.get(failure.reason, 0) + 1
        attempts = sum(self._by_reason.values())
        allowed = self._policy.attempts.get(failure.reason, 1) if failure.repeatable else 1
        if self._by_reason[failure.reason] >= allowed:
            raise _final(failure, attempts)
        wait = wait_seconds(self._policy, attempts, failure.wait_hint_seconds, self._around.random())
        self._spent_seconds += self._around.monotonic() - start + wait
        if self._spent_seconds > self._policy.budget_seconds:
            raise _final(failure, attempts)
        return wait


def _final(failure: Failure, attempts: int) -> ModelError:
    told = failure.message if attempts == 1 else f"{failure.message} ({attempts} attempts)"
    return model_error(failure.reason, told)
