"""Errors of servers, sorted into our reasons. They come as an HTTP status or as an error object in a 200 (b06).

What is decided by words is a table below, for servers word the same thing in many ways and give the same status to
different ones. Nothing here repeats or waits; `retry` does.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from batchrun_api.outcomes import Reason
from batchrun_runner.model.clean import loads_body
from batchrun_runner.model.hints import wait_hint_seconds
from batchrun_runner.model.stream import BrokenStream, is_stream, merge
from batchrun_runner.text import clean_text

LIMIT_MESSAGE_CHARS = 500


@dataclass(frozen=True, slots=True)
class Failure:
    """One attempt that brought no reply."""

    reason: Reason
    message: str
    repeatable: bool
    wait_hint_seconds: float | None = None
    """How long the server asks to wait. None: it does not say."""
    unreachable: bool = False
    """There was no connection at all, so it cannot be this request's fault."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came over the wire."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    content: bytes


REPEATABLE_STATUS = frozenset({408, 409, 429})
"""And all from 500 on but 501."""

_BY_STATUS: dict[int, Reason] = {
    401: Reason.INVALID_CREDENTIALS,
    402: Reason.INVALID_CREDENTIALS,  # the account is out of credit
    403: Reason.INVALID_CREDENTIALS,
    404: Reason.MODEL_NOT_FOUND,
    408: Reason.TIMEOUT,
    413: Reason.CONTEXT_LENGTH_EXCEEDED,
    429: Reason.RATE_LIMITED,
    501: Reason.INVALID_REQUEST,
    504: Reason.TIMEOUT,
}

# (reason, statuses it may stand for, words). Looked up in this order in the code, type and message of a 4xx or 5xx.
_BY_WORDS: tuple[tuple[Reason, range, re.Pattern[str]], ...] = (
    (
        Reason.CONTEXT_LENGTH_EXCEEDED,
        range(400, 600),
        re.compile(
            r"context_length_exceeded|maximum context length|prompt is too long|exceeds? the available context size"
            r"|exceeds? the maximum allowed input length|input is too long|input length .{0,80}exceeds?"
            r"|exceeds? (?:the )?(?:model'?s? )?(?:maximum )?context (?:window|length|limit)|context window exceed"
            r"|reduce the length of the messages",
            re.IGNORECASE | re.DOTALL,
        ),
    ),
    (
        Reason.CONTENT_FILTERED,
        range(400, 500),
        re.compile(
            r"content[_ ]filter|content[_ ]policy|content management policy|responsibleaipolicyviolation"
            r"|data_inspection_failed|requires moderation|input was flagged|safety system|prompt_blocked",
            re.IGNORECASE,
        ),
    ),
    (
        Reason.INVALID_CREDENTIALS,
        range(400, 500),
        re.compile(
            r"insufficient_quota|invalid_api_key|billing_hard_limit|insufficient (?:credits|balance)", re.IGNORECASE
        ),
    ),
    (
        Reason.MODEL_NOT_FOUND,
        range(400, 500),
        re.compile(
            r"model_not_found|not a valid model|model .{0,200}does not exist|no endpoints found|unknown model",
            re.IGNORECASE,
        ),
    ),
)

_CODE_WORDS: dict[str, int] = {
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
    "too_many_requests": 429,
    "overloaded_error": 529,
    "server_error": 500,
    "internal_error": 500,
    "timeout": 504,
    "invalid_request_error": 400,
    "context_length_exceeded": 400,
    "content_filter": 400,
    "model_not_found": 404,
    "invalid_api_key": 401,
    "authentication_error": 401,
}
"""Codes and types that stand in an error object without a number."""


def of_answer(answer: Answer, now: float) -> dict[str, Any] | Failure:
    """The chat completion object of an answer, or why it is none.

    `now`: seconds since the epoch, for wait hints that are dates.
    """
    try:
        body = merge(answer.content) if is_stream(answer.headers, answer.content) else loads_body(answer.content)
    except BrokenStream as broken:
        if answer.status < 300:
            return Failure(Reason.PROVIDER_ERROR, str(broken), repeatable=True)
        body = None
    except ValueError:
        body = None
    if 300 <= answer.status < 400 and (location := answer.headers.get("location")):
        return _elsewhere(answer.status, location)
    error = _error_object(body)
    if answer.status >= 400:
        return _failure(answer.status, error, answer, now)
    if error is not None:
        return _failure(_status_of(error), error, answer, now)
    if not isinstance(body, dict):
        return Failure(Reason.PROVIDER_ERROR, f"HTTP {answer.status} without a JSON object", repeatable=True)
    choices = body.get("choices")
    if not (isinstance(choices, list) and choices and isinstance(choices[0], dict)):
        return Failure(Reason.PROVIDER_ERROR, "the reply has no choices", repeatable=True)
    choice = choices[0]
    if isinstance(choice.get("error"), dict):
        return _failure(_status_of(choice["error"]), choice["error"], answer, now)
    if choice.get("finish_reason") == "error":
        return Failure(Reason.PROVIDER_ERROR, "the reply ended with finish_reason error", repeatable=True)
    if not isinstance(choice.get("message"), dict):
        return Failure(Reason.PROVIDER_ERROR, "the reply has no message", repeatable=True)
    return body


def _elsewhere(status: int, location: str) -> Failure:
    """Not followed: the conversation and the key are for the server that was named."""
    words = f"HTTP {status}: the server points to {clean_text(location)}; redirects are not followed"
    return Failure(Reason.MODEL_NOT_FOUND, words, repeatable=False)


def _error_object(body: object) -> dict[str, Any] | None:
    """The error in a body: `{"error": {...}}`, `{"error": "words"}`, or at the top (`{"object": "error", ...}`)."""
    if not isinstance(body, dict):
        return None
    error = body.get("error")
    if isinstance(error, dict) and error:
        return error
    if isinstance(error, str) and error:
        return {"message": error, "code": body.get("code")}
    if body.get("object") == "error" or ("message" in body and "choices" not in body):
        return body
    if "detail" in body and "choices" not in body:
        return {"message": str(body["detail"])}
    return None


def _status_of(error: Mapping[str, Any]) -> int:
    """The status that an error object in a 200 stands for; 502 where it does not say."""
    for key in ("code", "status", "type"):
        value = error.get(key)
        if isinstance(value, int) and 400 <= value < 600:
            return value
        if isinstance(value, str):
            if value.isascii() and value.isdigit() and 400 <= int(value) < 600:
                return int(value)
            if value in _CODE_WORDS:
                return _CODE_WORDS[value]
    return 502


def _failure(status: int, error: Mapping[str, Any] | None, answer: Answer, now: float) -> Failure:
    words = _words(error) if error is not None else _plain_text(answer.content)
    reason = _reason(status, words, error)
    # Words weigh more than the status: a 429 for lack of credit or a 500 for a too long prompt stays what it is.
    repeatable = (status in REPEATABLE_STATUS or (status >= 500 and status != 501)) and reason in {
        Reason.RATE_LIMITED,
        Reason.PROVIDER_ERROR,
        Reason.TIMEOUT,
    }
    hint = wait_hint_seconds(answer.headers, error, words, now) if repeatable else None
    return Failure(reason, f"HTTP {status}: {words}"[:LIMIT_MESSAGE_CHARS], repeatable, hint)


def _reason(status: int, words: str, error: Mapping[str, Any] | None) -> Reason:
    haystack = f"{_codes(error)} {words}" if error is not None else words
    for reason, statuses, pattern in _BY_WORDS:
        if status in statuses and pattern.search(haystack):
            return reason
    return _BY_STATUS.get(status, Reason.INVALID_REQUEST if status < 500 and status != 409 else Reason.PROVIDER_ERROR)


def _codes(error: Mapping[str, Any]) -> str:
    inner = error.get("innererror")
    codes = [error.get("code"), error.get("type"), inner.get("code") if isinstance(inner, dict) else None]
    return " ".join(str(code) for code in codes if code)


def _words(error: Mapping[str, Any]) -> str:
    """The message with the cause that gateways nest below it."""
    message = clean_text(str(error.get("message") or "no message"))
    metadata = error.get("metadata")
    if isinstance(metadata, dict):
        nested = [str(metadata[key]) for key in ("provider_name", "raw", "reasons") if metadata.get(key)]
        if nested:
            message = f"{message} ({clean_text(': '.join(nested))})"
    return " ".join(message.split())[: LIMIT_MESSAGE_CHARS * 4]


def _plain_text(content: bytes) -> str:
    text = " ".join(content[:2000].decode("utf-8", "replace").split())
    return "an HTML page" if text[:200].lower().startswith(("<!doctype", "<html")) else text or "no message"
