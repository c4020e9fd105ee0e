"""Errors of servers, sorted into our reasons. They come as an HTTP status or as an error object in a 200 (b06).

What is decided by words is a table below, for servers word the same thing in many ways and give the same status to
different ones. A code or type counts as it is; words of a message only where they are no echo of the request, or one
prompt about wrong keys would stop the run. Nothing here repeats or waits; `retry` does.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from batchrun_api.outcomes import Reason
from batchrun_runner.model.clean import dumps, loads, loads_body
from batchrun_runner.model.echoes import plain, says, without_echoes
from batchrun_runner.model.hints import wait_hint_seconds
from batchrun_runner.model.stream import BrokenStream, is_stream, merge
from batchrun_runner.text import clean_text

_READ_CHARS = 2000
"""So much of a message is looked at."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One attempt that brought no reply."""

    reason: Reason
    message: str
    """The server's words, as long as they were read; `guard` cuts them once it has seen all of them."""
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

# (reason, statuses it may stand for, words). Looked up in this order in the codes of a 4xx or 5xx, then in its message.
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

_TOO_LARGE = re.compile(r"limit:? ([\d,]{1,15}), requested:? ([\d,]{1,15})\b", re.IGNORECASE)
"""A 429 that no waiting mends: one request asks for more than the limit of a minute."""

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


def of_answer(answer: Answer, now: float, sent: bytes = b"") -> dict[str, Any] | Failure:
    """The chat completion object of an answer with the one choice that counts, or why it is none.

    `now` and `sent` as for `object_of`.
    """
    body = object_of(answer, now, sent)
    if isinstance(body, Failure):
        return body
    choices = body.get("choices")
    if not (isinstance(choices, list) and choices and isinstance(choices[0], dict)):
        return Failure(Reason.PROVIDER_ERROR, "the reply has no choices", repeatable=True)
    choice = _first_choice(choices)
    if isinstance(choice.get("error"), dict):
        return _failure(_status_of(choice["error"]), choice["error"], answer, now, sent)
    if choice.get("finish_reason") == "error":
        return Failure(Reason.PROVIDER_ERROR, "the reply ended with finish_reason error", repeatable=True)
    if not isinstance(choice.get("message"), dict):
        return Failure(Reason.PROVIDER_ERROR, "the reply has no message", repeatable=True)
    return {**body, "choices": [choice]}


def object_of(answer: Answer, now: float, sent: bytes = b"") -> dict[str, Any] | Failure:
    """The JSON object of an answer, whatever was asked for, or why it brought none.

    `now`: seconds since the epoch, for wait hints that are dates. `sent`: the request's body, whose echo decides
    nothing.
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
        return _failure(answer.status, error, answer, now, sent)
    if error is not None:
        return _failure(_status_of(error), error, answer, now, sent)
    if not isinstance(body, dict):
        return Failure(Reason.PROVIDER_ERROR, f"HTTP {answer.status} without a JSON object", repeatable=True)
    return body


def _first_choice(choices: list[Any]) -> dict[str, Any]:
    """The one with index 0, wherever it stands; the first, which is an object, where none says so."""
    first: dict[str, Any] = choices[0]
    for choice in choices:
        if isinstance(choice, dict) and choice.get("index") == 0 and isinstance(choice.get("message"), dict):
            return choice
    return first


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
        return _of_detail(body["detail"])
    return None


def _of_detail(detail: object) -> dict[str, Any]:
    """The error in FastAPI's `detail`: words, an object, or a list of faults, each of which quotes its `input`."""
    if isinstance(detail, dict) and "message" in detail:
        return detail
    if isinstance(detail, list) and detail and all(isinstance(fault, dict) and "msg" in fault for fault in detail):
        return {"message": "; ".join(f"{_place(fault.get('loc'))}{fault['msg']}" for fault in detail)}
    return {"message": str(detail)}


def _place(steps: object) -> str:
    return ".".join(str(step) for step in steps) + ": " if isinstance(steps, list) and steps else ""


def _status_of(error: Mapping[str, Any]) -> int:
    """The status that an error object in a 200 stands for; 502 where it does not say."""
    for key in ("code", "status", "type"):
        value = error.get(key)
        if isinstance(value, int) and 400 <= value < 600:
            return value
        if isinstance(value, str):
            if len(value) == 3 and value.isascii() and value.isdigit() and 400 <= int(value) < 600:
                return int(value)
            if value in _CODE_WORDS:
                return _CODE_WORDS[value]
    return 502


def _failure(status: int, error: Mapping[str, Any] | None, answer: Answer, now: float, sent: bytes) -> Failure:
    words = _words(error) if error is not None else _plain_text(answer.content)
    reason = _reason(status, words, error, sent)
    # Words weigh more than the status: a 429 for lack of credit or a 500 for a too long prompt stays what it is.
    repeatable = (status in REPEATABLE_STATUS or (status >= 500 and status != 501)) and reason in {
        Reason.RATE_LIMITED,
        Reason.PROVIDER_ERROR,
        Reason.TIMEOUT,
    }
    hint = wait_hint_seconds(answer.headers, error, words, now, sent) if repeatable else None
    return Failure(reason, f"HTTP {status}: {words}", repeatable, hint)


def _reason(status: int, words: str, error: Mapping[str, Any] | None, sent: bytes) -> Reason:
    by_status = _BY_STATUS.get(
        status, Reason.INVALID_REQUEST if status < 500 and status != 409 else Reason.PROVIDER_ERROR
    )
    candidates = [(reason, pattern) for reason, statuses, pattern in _BY_WORDS if status in statuses]
    codes = _codes(error or {})
    for reason, pattern in candidates:
        if pattern.search(codes):
            return reason
    said = plain(words)
    if status == 429:
        candidates.append((Reason.CONTEXT_LENGTH_EXCEEDED, _TOO_LARGE))
    if any(pattern.search(said) for _, pattern in candidates):
        request = _what_prompts_say(sent)
        said = without_echoes(said, request)
        for reason, pattern in candidates:
            if says(pattern, said, request) and (pattern is not _TOO_LARGE or _is_too_large(said)):
                return reason
    return by_status


def _is_too_large(said: str) -> bool:
    limit, requested = (int(number.replace(",", "") or 0) for number in _TOO_LARGE.findall(said)[0])
    return 0 < limit < requested


def _what_prompts_say(sent: bytes) -> str:
    """A request in plain form without the name of the model, which servers quote in words of their own."""
    if not sent:
        return ""
    return plain(dumps({name: value for name, value in loads(sent).items() if name != "model"}).decode())


def _codes(error: Mapping[str, Any]) -> str:
    inner = error.get("innererror")
    codes = [error.get("code"), error.get("type"), inner.get("code") if isinstance(inner, dict) else None]
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and "flagged_input" in metadata:
        codes.append("content_filter")  # OpenRouter's moderation, a 403
    return " ".join(code for code in codes if isinstance(code, str))


def _words(error: Mapping[str, Any]) -> str:
    """The message with the cause that gateways nest below it."""
    message = clean_text(str(error.get("message") or "no message"))
    metadata = error.get("metadata")
    if isinstance(metadata, dict):
        nested = [str(metadata[key]) for key in ("provider_name", "raw", "reasons") if metadata.get(key)]
        if nested:
            message = f"{message} ({clean_text(': '.join(nested))})"
    return " ".join(message.split())[:_READ_CHARS]


def _plain_text(content: bytes) -> str:
    text = " ".join(content[:_READ_CHARS].decode("utf-8", "replace").split())
    return "an HTML page" if text[:200].lower().startswith(("<!doctype", "<html")) else text or "no message"
