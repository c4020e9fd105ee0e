"""Pictures of an OpenAI-compatible images API: `POST /images/generations`."""

import base64
import binascii
from dataclasses import dataclass
from typing import Any

from batchrun_api.outcomes import Reason
from batchrun_runner.model.failures import Answer, Failure, object_of
from batchrun_runner.model.reply import read_usage
from batchrun_runner.records import Usage
from batchrun_runner.text import clean_text


@dataclass(frozen=True, slots=True)
class GeneratedImage:
    """One picture: its bytes, or the address where it lies for a while."""

    data: bytes
    url: str
    """Empty: `data` is the picture."""
    revised_prompt: str
    """What the server made of the prompt; empty: it does not say."""
    usage: Usage


def image_body(model: str, prompt: str, size: str) -> dict[str, Any]:
    """The request body; `size` empty: the server's own. No response_format: newer models refuse it."""
    body: dict[str, Any] = {"model": model, "prompt": prompt, "n": 1}
    return {**body, "size": size} if size else body


def of_image_answer(answer: Answer, now: float, sent: bytes = b"") -> dict[str, Any] | Failure:
    """The object of an answer that holds a picture, or why it holds none. Without one it is not asked again: each
    costs money. `now` and `sent` as for `failures.object_of`.
    """
    body = object_of(answer, now, sent)
    if isinstance(body, Failure):
        return body
    item = _first(body)
    if not any(isinstance(item.get(name), str) and item[name] for name in ("b64_json", "url")):
        return Failure(Reason.PROVIDER_ERROR, "the answer has no picture", repeatable=False)
    try:
        base64.b64decode(item.get("b64_json") or "", validate=True)
    except (binascii.Error, ValueError, TypeError):
        return Failure(Reason.PROVIDER_ERROR, "the picture in the answer is no base64", repeatable=False)
    return body


def read_image(body: dict[str, Any]) -> GeneratedImage:
    """The picture of such an object."""
    item = _first(body)
    data = base64.b64decode(item.get("b64_json") or "")
    revised = item.get("revised_prompt")
    return GeneratedImage(
        data=data,
        url="" if data else item["url"],
        revised_prompt=clean_text(revised) if isinstance(revised, str) else "",
        usage=read_usage(body.get("usage")),
    )


def _first(body: dict[str, Any]) -> dict[str, Any]:
    items = body.get("data")
    item = items[0] if isinstance(items, list) and items else None
    return item if isinstance(item, dict) else {}
