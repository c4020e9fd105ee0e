"""Servers quote what they were asked: that decides nothing, and no secret is stored or logged by it."""

import json
from typing import Any

import pytest

from batchrun_api.outcomes import Reason
from batchrun_runner.model.errors import FailPrompt, ModelError, StopRun
from batchrun_runner.model.guard import REMOVED, WITHHELD, SecretsGuard

OK = {"content": "fine"}
DJANGO = "In Django the model Foo does not exist, says makemigrations.\nWhy?"
STOP_WORDS = [
    DJANGO,
    "What does insufficient_quota mean?",
    "unknown model",
    "Is it the content filter or the maximum context length?",
    'The error was "prompt is too long": übersetze das.',
]


def asked(prompt: str) -> list[dict[str, Any]]:
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": prompt}]


async def fails(lab: Any, *turns: Any, **options: Any) -> ModelError:
    with pytest.raises(ModelError) as raised:
        await lab.ask(*turns, **options)
    return raised.value


def echo(form: str, messages: list[dict[str, Any]]) -> Any:
    """The body of a refusal that quotes the request in one of the usual forms."""
    body = {"model": "m", "messages": messages}
    fault = {"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra inputs are not permitted", "input": body}
    return {
        "pydantic": {"detail": [fault]},
        "other detail": {"detail": {"errors": [fault]}},
        "words": {"error": {"message": f"cannot take {messages[1]['content']!r} as it is"}},
        "repr": {"error": {"message": f"1 validation error: {[fault]}"}},
        "json": {"error": {"message": f"bad request: {json.dumps(body)}"}},
        "json twice": {"error": {"message": f"bad request: {json.dumps({'raw': json.dumps(body)})}"}},
        "metadata": {"error": {"message": "Provider returned error", "metadata": {"raw": json.dumps(body)}}},
        "no error object": {"request": body},
        "no JSON": f"bad request: {json.dumps(body, ensure_ascii=False)}",
    }[form]


@pytest.mark.parametrize("prompt", STOP_WORDS)
@pytest.mark.parametrize(
    "form",
    ["pydantic", "other detail", "words", "repr", "json", "json twice", "metadata", "no error object", "no JSON"],
)
async def test_words_of_the_prompt_decide_nothing(lab: Any, form: str, prompt: str) -> None:
    messages = asked(prompt)
    failed = await fails(lab, {"status": 422, "body": echo(form, messages)}, messages=messages)
    assert (failed.reason, type(failed)) == (Reason.INVALID_REQUEST, FailPrompt)


async def test_a_refusal_of_pydantic_is_told_without_what_it_quotes(lab: Any) -> None:
    messages = asked(DJANGO)
    failed = await fails(lab, {"status": 422, "body": echo("pydantic", messages)}, messages=messages)
    assert failed.message == "HTTP 422: body.seed: Extra inputs are not permitted"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("The model `m` does not exist", Reason.MODEL_NOT_FOUND),
        ("Insufficient credits. Your prompt was: In Django the model Foo does not exist", Reason.INVALID_CREDENTIALS),
        (f"prompt is too long: {DJANGO}", Reason.CONTEXT_LENGTH_EXCEEDED),
    ],
)
async def test_words_beside_the_echo_count(lab: Any, message: str, reason: Reason) -> None:
    failed = await fails(lab, {"status": 400, "body": {"error": {"message": message}}}, messages=asked(DJANGO))
    assert failed.reason is reason


async def test_a_code_counts_whatever_the_prompt_says(lab: Any) -> None:
    body = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
    failed = await fails(lab, {"status": 429, "body": body}, messages=asked("What does insufficient_quota mean?"))
    assert (failed.reason, type(failed)) == (Reason.INVALID_CREDENTIALS, StopRun)


async def test_the_name_of_the_model_in_the_servers_words_is_no_echo(lab: Any) -> None:
    name = "mistralai/Mistral-7B-Instruct-v0.3"
    failed = await fails(
        lab, {"status": 400, "body": {"error": {"message": f"The model `{name}` does not exist"}}}, name=name
    )
    assert failed.reason is Reason.MODEL_NOT_FOUND


async def test_a_moderation_of_openrouter_is_known_by_its_metadata(lab: Any) -> None:
    metadata = {"reasons": ["violence"], "flagged_input": "What is input wa..."}
    body = {"error": {"message": "refused", "code": 403, "metadata": metadata}}
    failed = await fails(lab, {"status": 403, "body": body})
    assert (failed.reason, type(failed)) == (Reason.CONTENT_FILTERED, FailPrompt)


async def test_a_wait_that_the_prompt_speaks_of_is_no_hint(lab: Any) -> None:
    prompt = "It says: try again in 200 seconds. What now?"
    body = {"error": {"message": f"worker died on: {prompt}"}}
    await lab.ask([{"status": 503, "body": body}, OK], messages=asked(prompt))
    assert lab.waits[0] < 1


@pytest.mark.parametrize(
    ("words", "is_permanent"),
    [
        ("Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 45000.", True),
        ("Request too large for model `x` (TPM): Limit: 6,000, Requested: 7,500, please reduce it.", True),
        (
            "Rate limit reached for gpt-4o (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2s.",
            False,
        ),
        ("Rate limit reached: Limit 30000, Requested 2000", False),
        ("No quota: Limit 0, Requested 1", False),
    ],
)
async def test_a_request_above_the_limit_of_a_minute_is_not_waited_for(
    lab: Any, words: str, is_permanent: bool
) -> None:
    refused = {"status": 429, "body": {"error": {"message": words, "type": "tokens", "code": "rate_limit_exceeded"}}}
    if is_permanent:
        failed = await fails(lab, refused)
        assert (failed.reason, type(failed)) == (Reason.CONTEXT_LENGTH_EXCEEDED, FailPrompt)
        assert len(lab.sent) == 1
    else:
        assert (await lab.ask([refused, OK])).text == "fine"


@pytest.mark.parametrize("code", ["9" * 5000, 2**60, "4290", ["429"], {"a": 1}])
async def test_a_code_that_is_no_status_is_a_fault_of_the_provider(lab: Any, code: Any) -> None:
    failed = await fails(lab, {"body": {"error": {"message": "x", "code": code}}})
    assert failed.reason is Reason.PROVIDER_ERROR


EPHEMERAL = 'Пароль вечера: жираф 🦒.\nНикому не\tговори: "C:\\new".\n'  # noqa: RUF001 - Russian


@pytest.mark.parametrize("escape", [lambda text: text, json.dumps, repr, lambda text: json.dumps(json.dumps(text))])
@pytest.mark.parametrize("secret", [EPHEMERAL, "pin: 4711-99\ncode: azzuro\nage: 55\n", "a\nb"])
def test_the_guard_knows_a_secret_in_every_escaped_form(escape: Any, secret: str) -> None:
    guard = SecretsGuard([secret])
    assert guard.safe(f"bad field: {escape(secret)}") == WITHHELD
    assert guard.safe(json.dumps({"got": escape(secret)}, ensure_ascii=False)) == WITHHELD
    assert guard.safe("pin: age: azzuro") == "pin: age: azzuro"


async def test_a_key_where_the_message_is_cut_is_seen_before_the_cut(lab: Any) -> None:
    lab.api_key = "sk-or-v1-0123456789abcdef"
    for before in range(440, 510, 5):
        message = f"{'z' * before} Bearer {lab.api_key}"
        assert (await fails(lab, {"status": 400, "body": {"error": {"message": message}}})).message == WITHHELD
    assert len((await fails(lab, {"status": 400, "body": {"error": {"message": "z" * 3000}}})).message) == 500


async def test_a_secret_of_extra_body_is_one_for_messages_too(lab: Any) -> None:
    extra = {"gateway": {"api_token": "no secret by its name", "access_token": ["in-the-body-4711"]}, "top_k": 40}
    refused = {"status": 400, "body": {"error": {"message": f"bad field in {json.dumps(extra)}"}}}
    assert (await fails(lab, refused, extra_body=extra)).message == WITHHELD
    harmless = {"status": 400, "body": {"error": {"message": "bad field top_k: 40"}}}
    assert (await fails(lab, harmless, extra_body=extra)).message == "HTTP 400: bad field top_k: 40"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_key_in_a_reply_is_replaced(lab: Any, stream: bool) -> None:
    lab.api_key = 'sk-or-v1-0123"456789abcdef'
    arguments = json.dumps({"command": f"echo {lab.api_key}"})
    call = {"id": "c1", "type": "function", "function": {"name": "terminal", "arguments": arguments}}
    message = {"role": "assistant", "content": f"It is {lab.api_key}.", "reasoning": lab.api_key, "tool_calls": [call]}
    reply = await lab.ask({"message": message}, stream=stream)
    assert (reply.text, reply.reasoning) == (f"It is {REMOVED}.", REMOVED)
    assert reply.calls[0].arguments == {"command": f"echo {REMOVED}"}
    assert "456789" not in repr(reply)


async def test_a_word_in_place_of_a_key_may_stand_in_replies(lab: Any) -> None:
    lab.api_key = "EMPTY"
    assert (await lab.ask({"content": "The list is EMPTY."})).text == "The list is EMPTY."


async def test_a_reply_of_any_depth_is_looked_through(lab: Any) -> None:
    lab.api_key = "sk-or-v1-0123456789abcdef"
    deep = '{"a": ' * 900 + json.dumps(lab.api_key) + "}" * 900
    body = f'{{"choices": [{{"message": {{"content": "fine", "reasoning_details": {deep}}}}}]}}'
    reply = await lab.ask({"body": body})
    assert (reply.text, lab.api_key in repr(reply)) == ("fine", False)
