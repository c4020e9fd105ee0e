"""The gate in front of the model, in simulated time: how rate limits and outages are shared by all calls."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.unit.model.simulated import around, run

from batchrun_api.outcomes import Reason
from batchrun_runner.model.errors import FailPrompt
from batchrun_runner.model.failures import Failure
from batchrun_runner.model.gate import Caller, Gate, Standstill
from batchrun_runner.model.policy import RetryPolicy
from batchrun_runner.model.retry import until_done

LATENCY_SECONDS = 0.1
REFUSED = Failure(Reason.PROVIDER_ERROR, "ConnectError: refused", repeatable=True, unreachable=True)
BROKEN = Failure(Reason.PROVIDER_ERROR, "HTTP 503: down", repeatable=True)


def limited(hint: float | None = None) -> Failure:
    return Failure(Reason.RATE_LIMITED, "HTTP 429: slow down", repeatable=True, wait_hint_seconds=hint)


@dataclass
class Server:
    """Answers after its latency what `behave` says at that time, given how many calls are under way."""

    behave: Callable[[float, int], Failure | str]
    latency_seconds: float = LATENCY_SECONDS
    requests: list[float] = field(default_factory=list)
    under_way: int = 0
    most: int = 0
    told: list[Standstill] = field(default_factory=list)

    async def attempt(self) -> str | Failure:
        now = asyncio.get_running_loop().time()
        self.requests.append(now)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        verdict = self.behave(now, self.under_way)
        await asyncio.sleep(self.latency_seconds)
        self.under_way -= 1
        return verdict

    def rate(self, start: float, end: float) -> float:
        """Requests a second."""
        return sum(start <= at < end for at in self.requests) / (end - start)

    async def prompts(
        self, workers: int, until: float = 0.0, each: int = 1, policy: RetryPolicy | None = None
    ) -> list[str | FailPrompt]:
        """The results of calls, made one after the other by each worker until the time is over, or `each` of them."""
        policy = policy or RetryPolicy()
        gate = Gate(policy, around(), self.told.append)
        loop, results = asyncio.get_running_loop(), list[str | FailPrompt]()

        async def worker() -> None:
            made = 0
            while loop.time() < until or made < each:
                made += 1
                try:
                    results.append(await until_done(self.attempt, policy, around(), gate, Caller()))
                except FailPrompt as error:
                    results.append(error)

        await asyncio.gather(*(worker() for _ in range(workers)))
        return results


def test_a_storm_of_429_fails_nothing_and_the_pace_follows_the_hints_and_recovers_within_10_seconds() -> None:
    server = Server(lambda now, _: limited(2.0) if 10 <= now < 130 else "ok")
    results, _ = run(server.prompts(workers=64, until=160))
    assert set(results) == {"ok"}
    before = server.rate(5, 10)
    assert before == pytest.approx(64 / LATENCY_SECONDS, rel=0.05)
    assert server.rate(30, 130) <= 1.0, "one call every two seconds is what the hint allows"
    assert server.rate(135, 140) >= 0.9 * before, "back to the old pace 10 s after the storm"


def test_without_a_hint_the_pace_falls_too_and_recovers_within_10_seconds() -> None:
    server = Server(lambda now, _: limited() if 10 <= now < 130 else "ok")
    results, _ = run(server.prompts(workers=64, until=160))
    assert set(results) == {"ok"}
    assert server.rate(40, 130) <= 0.5
    assert server.rate(140, 145) >= 0.9 * server.rate(5, 10)


def test_the_number_of_calls_under_way_settles_below_what_the_server_takes() -> None:
    """A server that takes ten calls at a time: the work is done at its pace, few calls are in vain."""
    server = Server(lambda _, under_way: "ok" if under_way <= 10 else limited(), latency_seconds=1.0)
    results, _ = run(server.prompts(workers=64, until=600))
    assert set(results) == {"ok"}
    in_vain = 1 - len(results) / len(server.requests)
    assert in_vain < 0.2
    assert len(results) / 600 > 0.7 * 10


def test_a_slow_call_that_was_let_in_before_a_429_holds_no_other_up() -> None:
    async def scene() -> float:
        policy, loop = RetryPolicy(), asyncio.get_running_loop()
        gate = Gate(policy, around())

        async def slow() -> str | Failure:
            await asyncio.sleep(600)
            return "ok"

        verdicts = iter([limited(1.0)])

        async def quick() -> str | Failure:
            await asyncio.sleep(LATENCY_SECONDS)
            return next(verdicts, "ok")

        patient = asyncio.create_task(until_done(slow, policy, around(), gate, Caller()))
        await asyncio.sleep(LATENCY_SECONDS)
        start = loop.time()
        await asyncio.gather(*(until_done(quick, policy, around(), gate, Caller()) for _ in range(4)))
        took = loop.time() - start
        await patient
        return took

    seconds, _ = run(scene())
    assert seconds < 10


def test_calls_of_one_wave_lower_the_limit_once() -> None:
    async def wave() -> float:
        gate = Gate(RetryPolicy(), around())
        callers = [Caller() for _ in range(20)]
        for caller in callers:
            await gate.enter(caller)
        for caller in callers:
            gate.leave(caller, limited())
        return gate.limit

    assert run(wave())[0] == 14.0


def test_a_dead_server_costs_one_prober_and_no_attempts_and_all_go_on_when_it_is_back() -> None:
    server = Server(lambda now, _: REFUSED if now < 300 else "ok")
    results, seconds = run(server.prompts(workers=64, each=2))
    assert results == ["ok"] * 128
    assert len(server.requests) < 64 + 128 + 25, "each asks once to learn it, then one prober for all"
    assert 300 <= seconds < 335


def test_a_server_that_answers_nothing_but_503_is_down_for_all_and_not_a_fault_of_each_prompt() -> None:
    server = Server(lambda now, _: BROKEN if now < 120 else "ok")
    results, _ = run(server.prompts(workers=8, each=3))
    assert results == ["ok"] * 24
    assert len(server.requests) < 8 + 24 + 12


def test_calls_that_were_under_way_when_the_server_died_are_no_tries_to_find_out() -> None:
    server = Server(lambda now, _: BROKEN if now < 1.0 else "ok")
    results, seconds = run(server.prompts(workers=16))
    assert results == ["ok"] * 16
    assert seconds < 5, "the waits between tries had doubled with each of the sixteen"


def test_no_prompt_is_told_what_a_server_in_trouble_said_about_another_one() -> None:
    """A server's error may quote the prompt."""
    heard: dict[int, list[str]] = {number: [] for number in range(30)}

    async def scene() -> None:
        policy = RetryPolicy(outage_callers=1, outage_seconds=20)
        gate = Gate(policy, around())

        async def ask(number: int) -> None:
            async def attempt() -> str | Failure:
                await asyncio.sleep(LATENCY_SECONDS)
                return Failure(Reason.PROVIDER_ERROR, f"HTTP 500: over <prompt {number}>", repeatable=True)

            await asyncio.sleep(number // 10)
            caller = Caller(lambda failure: heard[number].append(failure.message))
            with pytest.raises(FailPrompt) as raised:
                await until_done(attempt, policy, around(), gate, caller)
            heard[number].append(raised.value.message)

        await asyncio.gather(*map(ask, heard))

    run(scene())
    for number, messages in heard.items():
        assert not any("<prompt" in message and f"<prompt {number}>" not in message for message in messages)
    ends = [messages[-1] for messages in heard.values()]
    assert "HTTP 500: over <prompt 0> (no answer for" in ends[0]
    assert any(end.startswith("the model server answered other prompts with errors only (no answer") for end in ends)


def test_after_a_whole_outage_the_waiting_prompts_fail_and_later_ones_fail_at_once() -> None:
    server = Server(lambda _, __: REFUSED)
    results, seconds = run(server.prompts(workers=4, each=25))
    assert len(results) == 100
    assert {(error.reason, type(error)) for error in results if isinstance(error, FailPrompt)} == {
        (Reason.PROVIDER_ERROR, FailPrompt)
    }
    assert "ConnectError: refused (no answer for 6" in str(results[0])
    assert seconds < 700
    assert len(server.requests) < 50


def test_a_given_up_server_is_tried_again_now_and_then() -> None:
    policy = RetryPolicy(outage_seconds=60)
    server = Server(lambda now, _: REFUSED if now < 200 else "ok")

    async def work() -> list[str | FailPrompt]:
        first = await server.prompts(workers=2, policy=policy)
        assert all(isinstance(result, FailPrompt) for result in first)
        return first

    run(work())

    async def later() -> list[str | FailPrompt]:
        gate = Gate(policy, around())
        results: list[str | FailPrompt] = []
        for _ in range(60):
            try:
                results.append(await until_done(server.attempt, policy, around(), gate, Caller()))
            except FailPrompt as error:
                results.append(error)
            await asyncio.sleep(5)
        return results

    results, _ = run(later())
    assert isinstance(results[0], FailPrompt)
    assert results[-1] == "ok"


def test_one_prompt_that_kills_its_worker_is_no_outage() -> None:
    """Others are answered meanwhile: it fails after its own attempts, and nobody waits for it."""

    async def work() -> tuple[Any, list[Any]]:
        policy = RetryPolicy()
        gate = Gate(policy, around())
        good, bad = Server(lambda _, __: "ok"), Server(lambda _, __: BROKEN)

        async def poison() -> Any:
            return await until_done(bad.attempt, policy, around(), gate, Caller())

        async def others() -> list[Any]:
            return [await until_done(good.attempt, policy, around(), gate, Caller()) for _ in range(500)]

        failed, fine = await asyncio.gather(poison(), others(), return_exceptions=True)
        assert len(bad.requests) == 8
        assert isinstance(fine, list)
        return failed, fine

    (failed, fine), seconds = run(work())
    assert isinstance(failed, FailPrompt)
    assert fine == ["ok"] * 500
    assert seconds < 70


def test_two_poisonous_prompts_in_a_row_are_no_outage_for_one_worker() -> None:
    policy = RetryPolicy()

    async def work() -> list[Any]:
        gate, results = Gate(policy, around()), list[Any]()
        for verdict in (BROKEN, BROKEN, "ok"):
            server = Server(lambda _, __, verdict=verdict: verdict)  # type: ignore[misc]
            try:
                results.append(await until_done(server.attempt, policy, around(), gate, Caller()))
            except FailPrompt as error:
                results.append(error.reason)
        return results

    results, seconds = run(work())
    assert results == [Reason.PROVIDER_ERROR, Reason.PROVIDER_ERROR, "ok"]
    assert seconds < 150


def test_it_is_told_why_calls_wait_and_when_they_go_on() -> None:
    server = Server(lambda now, _: limited(4.0) if now < 60 else "ok")
    run(server.prompts(workers=4, until=90))
    reasons = [standstill.reason for standstill in server.told]
    assert reasons == [Reason.RATE_LIMITED, Reason.RATE_LIMITED, None]
    assert "the server limits the rate (HTTP 429: slow down); next try in 4 s" in str(server.told[0])
    assert "answers again" in str(server.told[-1])

    server = Server(lambda now, _: REFUSED if now < 60 else "ok")
    run(server.prompts(workers=4))
    assert [standstill.reason for standstill in server.told] == [Reason.PROVIDER_ERROR, Reason.PROVIDER_ERROR, None]
    assert "the model server is down (ConnectError: refused)" in str(server.told[0])


def test_a_short_wait_is_no_news() -> None:
    server = Server(lambda now, _: limited(1.0) if now < 0.5 else "ok")
    run(server.prompts(workers=4, until=20))
    assert server.told == []


@pytest.mark.parametrize("verdict", [limited(30.0), REFUSED], ids=["rate limit", "outage"])
def test_a_prompt_that_is_given_up_while_it_waits_holds_nobody_up(verdict: Failure) -> None:
    """Also when it was the one that was to ask for all."""
    server = Server(lambda now, _: verdict if now < 10 else "ok")

    async def work() -> tuple[Any, ...]:
        policy = RetryPolicy()
        gate = Gate(policy, around())

        def ask() -> Coroutine[Any, Any, str]:
            return until_done(server.attempt, policy, around(), gate, Caller())

        async def impatient() -> str:
            async with asyncio.timeout(5):
                return await ask()

        return tuple(await asyncio.gather(impatient(), impatient(), ask(), ask(), return_exceptions=True))

    results, seconds = run(work())
    assert [type(result) for result in results[:2]] == [TimeoutError, TimeoutError]
    assert results[2:] == ("ok", "ok")
    assert seconds < 45


def test_a_call_that_waits_hears_what_holds_it_up_before_it_was_ever_made() -> None:
    heard: list[Failure] = []

    async def work() -> None:
        gate = Gate(RetryPolicy(), around())
        first = Caller()
        await gate.enter(first)
        gate.leave(first, limited(7.0))
        await gate.enter(Caller(heard.append))

    _, seconds = run(work())
    assert [failure.reason for failure in heard] == [Reason.RATE_LIMITED]
    assert 7 <= seconds <= 8


def test_prompts_whose_fault_is_their_own_do_not_keep_the_others_waiting() -> None:
    """They open the breaker, and each of them fails whenever it is its turn to try."""

    async def scene() -> tuple[list[str], float]:
        policy, loop = RetryPolicy(outage_callers=3), asyncio.get_running_loop()
        gate = Gate(policy, around())

        async def own_fault() -> str | Failure:
            await asyncio.sleep(LATENCY_SECONDS)
            return BROKEN

        async def fine() -> str | Failure:
            await asyncio.sleep(LATENCY_SECONDS)
            return "ok"

        bad = [asyncio.create_task(until_done(own_fault, policy, around(), gate, Caller())) for _ in range(3)]
        await asyncio.sleep(LATENCY_SECONDS * 2)
        start = loop.time()
        answers = await asyncio.gather(*(until_done(fine, policy, around(), gate, Caller()) for _ in range(5)))
        seconds = loop.time() - start
        for task in bad:
            task.cancel()
        await asyncio.gather(*bad, return_exceptions=True)
        return answers, seconds

    (answers, seconds), _ = run(scene())
    assert answers == ["ok"] * 5
    assert seconds < 30, "a prompt that cannot be answered was the only one to try"


def test_a_waiting_call_that_is_cancelled_gives_its_turn_away() -> None:
    async def scene() -> str:
        policy = RetryPolicy()
        gate, down = Gate(policy, around()), True

        async def attempt() -> str | Failure:
            await asyncio.sleep(LATENCY_SECONDS)
            return REFUSED if down else "ok"

        calls = [asyncio.create_task(until_done(attempt, policy, around(), gate, Caller())) for _ in range(4)]
        await asyncio.sleep(1)
        for cancelled in calls[:3]:
            cancelled.cancel()
        await asyncio.sleep(1)
        down = False
        return await calls[3]

    answer, seconds = run(scene())
    assert answer == "ok"
    assert seconds < 120


def test_a_call_that_is_cancelled_while_it_waits_for_room_harms_no_other() -> None:
    """Cancelled in the very moment in which a place becomes free, before it has run again."""

    async def scene() -> list[str]:
        policy = RetryPolicy()
        gate = Gate(policy, around())
        answers: Iterator[str | Failure] = iter([limited(), *["ok"] * 20])
        cancelled: list[asyncio.Task[str]] = []

        async def attempt() -> str | Failure:
            await asyncio.sleep(LATENCY_SECONDS)
            for task in cancelled:
                task.cancel()
            return next(answers)

        calls = [asyncio.create_task(until_done(attempt, policy, around(), gate, Caller()))]
        await asyncio.sleep(LATENCY_SECONDS * 1.5)
        calls += [asyncio.create_task(until_done(attempt, policy, around(), gate, Caller())) for _ in range(4)]
        cancelled += calls[2:4]
        await asyncio.gather(*calls, return_exceptions=True)
        assert all(task.cancelled() for task in cancelled)
        return [task.result() for task in calls if task not in cancelled]

    answers, seconds = run(scene())
    assert answers == ["ok"] * 3
    assert seconds < 60
