"""Errors of servers, and what becomes of them: waited out, told as the right reason, or the end of the run."""

import asyncio
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from batchrun_api.outcomes import Reason
from batchrun_api.spec.model import Model
from batchrun_runner.model.client import ModelClient
from batchrun_runner.model.errors import FailPrompt, ModelError, StopRun
from batchrun_runner.model.failures import Answer, of_answer
from batchrun_runner.model.guard import WITHHELD, SecretsGuard
from batchrun_runner.model.policy import RetryPolicy, wait_seconds
from batchrun_runner.model.reply import read_reply

NOW = datetime.fromtimestamp(1_800_000_000, UTC)
OK = {"content": "fine"}


def error(message: str, code: Any = None, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "code": code, **more}}


async def fails(lab: Any, *turns: Any, **options: Any) -> ModelError:
    with pytest.raises(ModelError) as raised:
        await lab.ask(*turns, **options)
    return raised.value


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_a_passing_fault_is_asked_again(lab: Any, status: int) -> None:
    reply = await lab.ask([{"status": status}, {"status": status}, OK])
    assert reply.text == "fine"
    assert len(lab.waits) == 2


@pytest.mark.parametrize(
    ("status", "reason", "fate"),
    [
        (400, Reason.INVALID_REQUEST, FailPrompt),
        (422, Reason.INVALID_REQUEST, FailPrompt),
        (413, Reason.CONTEXT_LENGTH_EXCEEDED, FailPrompt),
        (401, Reason.INVALID_CREDENTIALS, StopRun),
        (402, Reason.INVALID_CREDENTIALS, StopRun),
        (403, Reason.INVALID_CREDENTIALS, StopRun),
        (404, Reason.MODEL_NOT_FOUND, StopRun),
        (501, Reason.INVALID_REQUEST, FailPrompt),
    ],
)
async def test_a_lasting_fault_is_asked_once(lab: Any, status: int, reason: Reason, fate: type[ModelError]) -> None:
    failed = await fails(lab, {"status": status})
    assert (failed.reason, type(failed)) == (reason, fate)
    assert len(lab.sent) == 1


@pytest.mark.parametrize("code", [502, "502", 429, "429", "rate_limit_exceeded", None])
async def test_b06_an_error_object_in_a_200_is_an_error_with_its_code(lab: Any, code: Any) -> None:
    body = {**error("Provider returned error", code, metadata={"raw": "rate limited"}), "choices": None}
    assert (await lab.ask([{"body": body}, OK])).text == "fine"
    limited = code in {429, "429", "rate_limit_exceeded"}
    if not limited:
        failed = await fails(lab, {"body": body})
        assert "rate limited" in failed.message
        assert failed.reason is Reason.PROVIDER_ERROR
    assert {failure.reason for failure in lab.held} == {Reason.RATE_LIMITED if limited else Reason.PROVIDER_ERROR}


async def test_b06_a_lasting_error_in_a_200_is_not_asked_again(lab: Any) -> None:
    failed = await fails(lab, {"body": error("bad field", 400)})
    assert failed.reason is Reason.INVALID_REQUEST
    assert len(lab.sent) == 1


@pytest.mark.parametrize(
    "body",
    [
        "<html>oops</html>",
        "",
        "null",
        "[]",
        {"choices": []},
        {"choices": [None]},
        {"choices": [{"message": None}]},
        {"choices": [{"error": {"code": 502, "message": "x"}, "message": {"content": "half"}}]},
        {"choices": [{"finish_reason": "error", "message": {"content": "half"}}]},
    ],
)
async def test_b06_a_200_without_a_message_is_a_fault_of_the_provider(lab: Any, body: Any) -> None:
    assert (await lab.ask([{"body": body}, OK])).text == "fine"
    assert (await fails(lab, {"body": body})).reason is Reason.PROVIDER_ERROR


@pytest.mark.parametrize(
    "body",
    [
        error("x", "content_filter"),
        error("filtered", 400, innererror={"code": "ResponsibleAIPolicyViolation"}),
        error("Your chosen model requires moderation and your input was flagged", 403),
    ],
)
async def test_b11_a_filtered_request_is_asked_once(lab: Any, body: dict[str, Any]) -> None:
    failed = await fails(lab, {"status": 400, "body": body})
    assert failed.reason is Reason.CONTENT_FILTERED
    assert len(lab.sent) == 1


@pytest.mark.parametrize(
    "body",
    [
        error("This model's maximum context length is 8192 tokens.", "context_length_exceeded"),
        error("prompt is too long: 210000 tokens > 200000 maximum"),
        error("the request exceeds the available context size. try increasing it", 400),
        error("input exceeds the maximum allowed input length", "400"),
        {"object": "error", "message": "This model's maximum context length is 10 tokens", "code": 400},
    ],
)
@pytest.mark.parametrize("status", [400, 500])
async def test_b16_a_too_long_conversation_is_told_from_other_errors(lab: Any, body: Any, status: int) -> None:
    failed = await fails(lab, {"status": status, "body": body})
    assert failed.reason is Reason.CONTEXT_LENGTH_EXCEEDED
    assert len(lab.sent) == 1


async def test_b16_a_limit_of_max_tokens_is_an_ordinary_bad_request(lab: Any) -> None:
    failed = await fails(lab, {"status": 400, "body": error("max_tokens must be less than or equal to 4096")})
    assert failed.reason is Reason.INVALID_REQUEST


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (429, error("You exceeded your current quota", "insufficient_quota"), Reason.INVALID_CREDENTIALS),
        (400, error("nonsense/model is not a valid model ID", 400), Reason.MODEL_NOT_FOUND),
        (404, {"detail": "Not Found"}, Reason.MODEL_NOT_FOUND),
        (404, "<html>", Reason.MODEL_NOT_FOUND),
    ],
)
async def test_what_nobody_can_wait_out_stops_the_run(lab: Any, status: int, body: Any, reason: Reason) -> None:
    failed = await fails(lab, {"status": status, "body": body})
    assert (failed.reason, type(failed)) == (reason, StopRun)
    assert len(lab.sent) == 1


@pytest.mark.parametrize(
    ("header", "floor"),
    [
        ({"Retry-After": "2"}, 2),
        ({"Retry-After": "0.5"}, 0.5),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"Retry-After": format_datetime(NOW + timedelta(seconds=5), usegmt=True)}, 5),
        ({"Retry-After": format_datetime(NOW - timedelta(seconds=5), usegmt=True)}, 0),
        ({"Retry-After": "rubbish"}, 0),
        ({"Retry-After": "-7"}, 0),
        ({"Retry-After": "nan"}, 0),
        ({"x-ratelimit-reset-requests": "1m2.5s", "x-ratelimit-remaining-requests": "0"}, 62.5),
        ({"x-ratelimit-reset-tokens": "20ms", "x-ratelimit-remaining-tokens": "0"}, 0.02),
        ({"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-remaining-tokens": "7"}, 0),
        ({"x-ratelimit-reset": str(int((NOW.timestamp() + 9) * 1000))}, 9),
        ({"x-ratelimit-reset": str(int(NOW.timestamp() + 9))}, 9),
        ({"ratelimit-reset": "9"}, 9),
        ({"anthropic-ratelimit-requests-reset": (NOW + timedelta(seconds=9)).isoformat()}, 9),
        ({"x-ratelimit-reset": "whenever"}, 0),
    ],
)
@pytest.mark.parametrize("random", [0.0, 0.999])
async def test_b13_the_wait_hint_is_a_floor(lab: Any, header: dict[str, str], floor: float, random: float) -> None:
    lab.random = random
    await lab.ask([{"status": 429, "headers": header}, OK])
    (waited,) = lab.waits
    assert floor <= waited <= max(floor + 1, 0.5)


@pytest.mark.parametrize(
    "body",
    [
        error("Rate limit reached. Please try again in 12.5s.", "rate_limit_exceeded"),
        error("Please retry after 12500 ms"),
        error("slow", 429, metadata={"retry_after_seconds": 12.5}),
        error("slow", 429, retryDelay="12.5s"),
    ],
)
async def test_b13_a_hint_in_the_body_counts_too(lab: Any, body: dict[str, Any]) -> None:
    await lab.ask([{"status": 429, "body": body}, OK])
    assert 12.5 <= lab.waits[0] <= 13.5


async def test_b13_after_a_hint_above_the_cap_the_server_is_asked_again_at_the_cap(lab: Any) -> None:
    refused = {"status": 429, "headers": {"Retry-After": "3600"}}
    assert (await lab.ask([refused, refused, OK])).text == "fine"
    assert [300 <= waited <= 301 for waited in lab.waits] == [True, True]


async def test_a_rate_limit_is_waited_out_however_often_it_comes(lab: Any) -> None:
    assert (await lab.ask([*[{"status": 429}] * 100, OK])).text == "fine"
    assert len(lab.sent) == 101
    assert max(lab.waits) <= RetryPolicy().longest_rate_wait_seconds


async def test_b14_a_server_that_never_answers_is_cut_off_and_asked_again(lab: Any) -> None:
    assert (await lab.ask([{"fault": "hang"}, OK], timeout_seconds=1)).text == "fine"


async def test_b14_a_drip_does_not_hold_off_the_deadline(lab: Any) -> None:
    lab.policy = RetryPolicy(attempts={Reason.TIMEOUT: 1})
    failed = await fails(lab, {"fault": "drip"}, timeout_seconds=1)
    assert (failed.reason, type(failed)) == (Reason.TIMEOUT, FailPrompt)


async def test_b15_a_connection_cut_in_mid_answer_is_asked_again(lab: Any) -> None:
    assert (await lab.ask([{"fault": "cut"}, OK])).text == "fine"
    failed = await fails(lab, {"fault": "cut"})
    assert failed.reason is Reason.PROVIDER_ERROR
    assert "8 attempts" in failed.message


async def test_a_server_that_is_not_there_is_a_fault_of_the_provider(lab: Any, unused_tcp_port: int) -> None:
    client = ModelClient(Model(base_url=f"http://127.0.0.1:{unused_tcp_port}/v1"), around=lab.around())
    async with client:
        with pytest.raises(FailPrompt) as raised:
            await client.query([{"role": "user", "content": "x"}], [])
    assert raised.value.reason is Reason.PROVIDER_ERROR
    assert lab.clock >= RetryPolicy().outage_seconds
    assert "no answer for" in raised.value.message


async def test_waits_double_and_stay_below_the_longest(lab: Any) -> None:
    lab.random = 0.999999
    lab.policy = RetryPolicy(longest_wait_seconds=3.0)
    await fails(lab, {"status": 503})
    assert [round(wait, 1) for wait in lab.waits] == [0.5, 1.0, 2.0, 3.0, 3.0, 3.0, 3.0]


async def test_no_wait_begins_that_would_end_after_the_budget(lab: Any) -> None:
    lab.policy = RetryPolicy(budget_seconds=25)
    failed = await fails(lab, {"status": 503, "headers": {"Retry-After": "10"}})
    assert failed.reason is Reason.PROVIDER_ERROR
    assert len(lab.waits) == 2
    assert "3 attempts" in failed.message


def test_jitter_takes_off_up_to_half_of_the_step_and_never_from_a_hint() -> None:
    policy = RetryPolicy(first_wait_seconds=8)
    assert wait_seconds(policy, 1, None, 0.0) == 4
    assert wait_seconds(policy, 1, 20.0, 0.0) == 20
    assert wait_seconds(policy, 1, 1.0, 0.0) == 4


async def test_a_query_that_its_prompt_gave_up_is_not_repeated(lab: Any) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await lab.ask({"fault": "hang"})
    assert len(lab.sent) == 1
    assert lab.waits == []


async def test_messages_never_quote_the_key_or_an_ephemeral_prompt(lab: Any) -> None:
    lab.api_key, lab.secrets = "sk-or-v1-0123456789abcdef", ("You secretly are a pirate\nwith a parrot.",)
    for echoed in ("bad key sk-or-v1-0123456789abcdef", "unknown field in: secretly are a pirate with a"):
        failed = await fails(lab, {"status": 400, "body": error(echoed)})
        assert failed.message == WITHHELD
    assert "fine" in (await fails(lab, {"status": 400, "body": error("fine words")})).message


def test_the_guard_lets_pass_what_has_only_little_in_common() -> None:
    assert SecretsGuard(["You are a helpful assistant.", None]).safe("you need help") == "you need help"
    assert SecretsGuard(["abc"]).safe("xabcx") == WITHHELD


async def test_a_redirect_stops_the_run_and_says_where_it_points(lab: Any) -> None:
    failed = await fails(lab, {"status": 307, "headers": {"Location": "https://moved.example/v1"}})
    assert (failed.reason, type(failed)) == (Reason.MODEL_NOT_FOUND, StopRun)
    assert failed.message == "HTTP 307: the server points to https://moved.example/v1; redirects are not followed"
    assert len(lab.sent) == 1


@pytest.mark.parametrize("body", ['{"error": {"message": "slow down"}}', "data: {broken\n\n", ""])
async def test_a_status_counts_also_where_the_answer_calls_itself_a_stream(lab: Any, body: str) -> None:
    refused = {"status": 429, "body": body, "headers": {"Content-Type": "text/event-stream", "Retry-After": "3"}}
    assert (await lab.ask([*[refused] * 20, OK])).text == "fine"
    assert all(wait >= 3 for wait in lab.waits)


@pytest.mark.parametrize(
    "turn",
    [
        '{"choices": [{"message": {"content": "fine"}, "logprobs": {"a": -Infinity}}], "usage": {"total": NaN}}',
        b'{"choices": [{"message": {"content": "fine"}}], "model": "caf\xe9"}',
        b'\xef\xbb\xbf{"choices": [{"message": {"content": "fine"}}], "x": NaN}',
    ],
)
async def test_what_is_no_json_beside_the_message_does_not_lose_the_turn(turn: str | bytes) -> None:
    answer = Answer(200, {}, turn.encode() if isinstance(turn, str) else turn)
    body = of_answer(answer, 0.0)
    assert isinstance(body, dict)
    assert read_reply(body).text == "fine"


async def test_arguments_with_a_number_that_is_none_are_not_run(lab: Any) -> None:
    raw = '{"command": "x", "depth": NaN}'
    function = f'{{"name": "terminal", "arguments": {raw}}}'
    body = f'{{"choices": [{{"message": {{"tool_calls": [{{"function": {function}}}]}}}}]}}'
    (call,) = (await lab.ask({"body": body})).calls
    assert (call.arguments, call.error) == (None, "the arguments hold NaN or Infinity")
