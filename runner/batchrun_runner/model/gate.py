"""When a call may start: one gate for all calls of a process (docs/decisions/0007).

`limiter` knows how many, `outage` whether the server is there at all; here calls wait, and it is told why.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from batchrun_api.outcomes import Reason
from batchrun_runner.model.errors import FailPrompt
from batchrun_runner.model.failures import Failure
from batchrun_runner.model.limiter import RateLimiter
from batchrun_runner.model.outage import Outage
from batchrun_runner.model.policy import RetryPolicy, Surroundings

TELL_AFTER_SECONDS = 5.0
"""A wait shorter than this is no news."""
TELL_AGAIN_SECONDS = 30.0
CALM_SECONDS = 10.0
"""So long without a 429 and the rate limit is held to be over."""


@dataclass(frozen=True, slots=True)
class Standstill:
    """Calls are held up by the server, or not any more."""

    reason: Reason | None
    """RateLimited or ProviderError; None: the model answers again."""
    words: str
    """The server's, or the system's."""
    seconds: float
    """Until the next try; where it is over, how long it lasted."""

    def __str__(self) -> str:
        """One line for people."""
        if self.reason is None:
            return f"the model answers again after {self.seconds:.0f} s"
        why = "the server limits the rate" if self.reason is Reason.RATE_LIMITED else "the model server is down"
        return f"waiting: {why} ({self.words}); next try in {self.seconds:.0f} s"


Tell = Callable[[Standstill], None]
Held = Callable[[Failure], None]
"""Told what holds a call up, each time."""


class Caller:
    """One query, through all its attempts."""

    def __init__(self, held: Held = lambda failure: None) -> None:
        self.held = held
        self.round = 0
        """The limiter's round in which its attempt started."""
        self.was_let_in = False
        self.own_failure: Failure | None = None
        """Of its last attempt."""


class _Line:
    """Callers that wait, in the order in which they came."""

    def __init__(self) -> None:
        self._places: deque[tuple[Caller, asyncio.Future[bool]]] = deque()

    async def wait(self, caller: Caller) -> bool:
        """What `wake_first` tells this caller."""
        woken: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._places.append((caller, woken))
        try:
            return await woken
        finally:
            with suppress(ValueError):  # it was taken out of the line to be woken
                self._places.remove((caller, woken))

    def wake_first(self, word: bool) -> Caller | None:
        """Wakes whoever has waited longest, and says who it is; None: nobody waits."""
        while self._places:
            caller, woken = self._places.popleft()
            if not woken.done():  # else it was cancelled, and has not run since
                woken.set_result(word)
                return caller
        return None


class Gate:
    """Every attempt goes through `enter` and ends with `leave`."""

    def __init__(self, policy: RetryPolicy, around: Surroundings, tell: Tell = lambda standstill: None) -> None:
        self._around = around
        self._limiter = RateLimiter(policy)
        self._outage = Outage(policy)
        self._news = _News(tell)
        self._under_way: Counter[int] = Counter()
        """By the limiter's round. Calls of earlier ones, let in under another limit, take no places of today's."""
        self._for_room = _Line()
        self._last_refusal: Failure | None = None
        self._prober: Caller | None = None
        self._for_prober = _Line()
        """Told True: it is this caller's turn to try; False: look again."""

    @property
    def limit(self) -> float:
        """Calls that may be under way; infinite before the first 429."""
        return self._limiter.limit

    async def enter(self, caller: Caller) -> None:
        """Returns when the call may start. Raises FailPrompt where an outage has lasted too long."""
        while True:
            now = self._around.monotonic()
            if self._outage.is_open:
                if await self._enter_outage(caller, now):
                    break
            elif now < self._limiter.closed_until:
                self._hold(caller)
                await self._around.sleep(self._limiter.closed_until - now)
            elif self._limiter.has_room(self._under_way[self._limiter.round]):
                break
            else:
                self._hold(caller)
                await self._next_place(caller)
        caller.round = self._limiter.round
        caller.was_let_in = True
        self._under_way[caller.round] += 1

    def leave(self, caller: Caller, result: Failure | None) -> bool:
        """An attempt is over; `result` None: it was answered. True: its failure is not the caller's own.

        Call `abandon` for an attempt that was cancelled.
        """
        now = self._around.monotonic()
        if result is None or not result.repeatable:
            self._answered(now)
            shared = False
        elif result.reason is Reason.RATE_LIMITED:
            self._end_outage()
            wait = self._limiter.refused(
                caller.round,
                self._under_way[caller.round],
                result.wait_hint_seconds,
                now,
                self._around.random(),
            )
            self._last_refusal = result
            self._news.held(result, now, wait)
            shared = True
        else:
            caller.own_failure = result
            is_try = self._prober is caller
            shared = self._outage.failed(caller, result, now, self._around.random(), is_try=is_try)
            if shared:
                self._news.held(result, now, max(0.0, self._outage.next_try_at - now))
        self.abandon(caller)
        return shared

    def abandon(self, caller: Caller) -> None:
        """The attempt is over and says nothing about the server."""
        self._under_way[caller.round] -= 1
        if not self._under_way[caller.round]:
            del self._under_way[caller.round]
        self._release_prober(caller)
        self._call_next()

    def _answered(self, now: float) -> None:
        self._limiter.answered()
        self._end_outage()
        self._news.answered(now)

    # ---- Rate limit ------------------------------------------------------------------------------------------------

    def _hold(self, caller: Caller) -> None:
        if self._last_refusal is not None:
            caller.held(self._last_refusal)

    async def _next_place(self, caller: Caller) -> None:
        try:
            await self._for_room.wait(caller)
        except asyncio.CancelledError:
            self._call_next()  # it may have been woken for a place that it does not take
            raise

    def _call_next(self) -> None:
        """Wake as many as there is room for; each looks for itself."""
        woken = 0
        under_way = self._under_way[self._limiter.round]
        while self._limiter.has_room(under_way + woken) and self._for_room.wake_first(True) is not None:
            woken += 1

    # ---- Outage ----------------------------------------------------------------------------------------------------

    async def _enter_outage(self, caller: Caller, now: float) -> bool:
        """True: the call may start, to find out. False: look again."""
        failure = self._outage.failure
        if failure is not None:
            caller.held(_as_told_to(caller, failure))
        if self._outage.is_given_up(now) and (caller.was_let_in or now < self._outage.next_try_at):
            raise self._given_up(caller, now)
        if self._prober is not None and not await self._turn(caller):
            return False
        self._prober = caller
        try:
            await self._around.sleep(max(0.0, self._outage.next_try_at - self._around.monotonic()))
        except BaseException:
            self._release_prober(caller)
            raise
        return True

    async def _turn(self, caller: Caller) -> bool:
        """True: the prober has failed and it is this caller's turn. False: something has changed."""
        caller.was_let_in = True  # what the prober finds is what this call would find
        try:
            return await self._for_prober.wait(caller)
        except asyncio.CancelledError:
            self._release_prober(caller)
            raise

    def _release_prober(self, caller: Caller) -> None:
        """The next in the queue tries: a fault that is one prompt's own must not keep all others waiting."""
        if self._prober is not caller:
            return
        self._prober = None
        if self._outage.is_open and not self._outage.is_given_up(self._around.monotonic()):
            self._prober = self._for_prober.wake_first(True)
        else:
            self._wake_waiting()

    def _end_outage(self) -> None:
        """Whoever was answered ends it, the prober or a call that had started before."""
        if self._outage.is_open:
            self._wake_waiting()
        self._outage.answered()

    def _wake_waiting(self) -> None:
        while self._for_prober.wake_first(False) is not None:
            pass

    def _given_up(self, caller: Caller, now: float) -> FailPrompt:
        failure = self._outage.failure
        words = _as_told_to(caller, failure).message if failure else "no answer"
        return FailPrompt(Reason.PROVIDER_ERROR, f"{words} (no answer for {now - self._outage.since:.0f} s)")


def _as_told_to(caller: Caller, failure: Failure) -> Failure:
    """A server that answers with a fault may quote the prompt that it was asked about: another one hears its own."""
    if failure.unreachable:
        return failure
    return caller.own_failure or replace(failure, message="the model server answered other prompts with errors only")


class _News:
    """Tells of a standstill when it has become one, and of its end."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._since: float | None = None
        self._last_held = 0.0
        self._reason: Reason | None = None
        self._told_at: float | None = None

    def held(self, failure: Failure, now: float, wait_seconds: float) -> None:
        reason = Reason.RATE_LIMITED if failure.reason is Reason.RATE_LIMITED else Reason.PROVIDER_ERROR
        if self._since is None:
            self._since = now
        self._last_held = now
        changed = self._told_at is not None and reason is not self._reason
        self._reason = reason
        if now - self._since + wait_seconds < TELL_AFTER_SECONDS and not changed:
            return
        if self._told_at is None or changed or now - self._told_at >= TELL_AGAIN_SECONDS:
            self._told_at = now
            self._tell(Standstill(reason, failure.message, wait_seconds))

    def answered(self, now: float) -> None:
        if self._since is None or (self._reason is Reason.RATE_LIMITED and now - self._last_held < CALM_SECONDS):
            return
        if self._told_at is not None:
            self._tell(Standstill(None, "", now - self._since))
        self._since = self._told_at = None
