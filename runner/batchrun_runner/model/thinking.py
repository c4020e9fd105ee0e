"""Reasoning, wherever a server puts it: fields of the message, parts of its content, tags in its text."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from batchrun_runner.text import clean_text


class Source(StrEnum):
    """Where reasoning was found."""

    NONE = ""
    REASONING = "reasoning"
    REASONING_CONTENT = "reasoning_content"
    DETAILS = "reasoning_details"
    PARTS = "parts"
    TAGS = "tags"


SENT_BACK = ("reasoning", "reasoning_content", "reasoning_details", "thinking_blocks")
"""Fields of an assistant message that go back as they came (b08, signed thinking)."""


@dataclass(frozen=True, slots=True)
class Split:
    """A message's text without its reasoning, and the reasoning."""

    text: str
    reasoning: str
    source: Source = Source.NONE
    signed: bool = False
    """It holds a signed or encrypted thinking block."""
    notes: tuple[str, ...] = ()
    """Kinds of content parts that are not known."""


def split(message: Mapping[str, Any]) -> Split:
    """Text and reasoning of an assistant message, nested at most `clean.DEEPEST` levels deep.

    Nothing is lost, nothing is there twice.
    """
    text, from_parts, notes = _content(message.get("content"))
    if not text and isinstance(message.get("refusal"), str):
        text = clean_text(message["refusal"])
    details, signed = _details(message)
    for source in (Source.REASONING, Source.REASONING_CONTENT):
        value = clean_text(_plain(message.get(source.value)))
        if value.strip():
            return Split(*_without_tags(text, value), source, signed, notes)
    if details:
        return Split(*_without_tags(text, details), Source.DETAILS, signed, notes)
    if from_parts:
        return Split(text, from_parts, Source.PARTS, signed, notes)
    answer, thought = split_tags(text)
    return Split(answer, thought, Source.TAGS if thought else Source.NONE, signed, notes)


_PAIRS = (("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<REASONING_SCRATCHPAD>", "</REASONING_SCRATCHPAD>"))
_FENCE = re.compile(r"^[ \t]*(```|~~~)", re.MULTILINE)


def split_tags(text: str) -> tuple[str, str]:
    """(answer, reasoning) of a text with inline thinking (b09).

    Thinking stands at the start: from an opening tag to the closing tag of its own kind, before a lone closing tag (the
    opening one was in the prompt), or after an opening tag that is never closed. A tag that is quoted later, in a code
    fence or in backticks, is ordinary text.
    """
    stripped = text.lstrip()
    for opening, closing in _PAIRS:
        if stripped.startswith(opening):
            thought, closed, answer = stripped[len(opening) :].partition(closing)
            return (answer.lstrip("\n"), thought.strip()) if closed else ("", thought.strip())
    for opening, closing in _PAIRS:
        position = text.find(closing)
        if position >= 0 and opening not in text[:position] and not _is_quoted(text, position):
            return text[position + len(closing) :].lstrip("\n"), text[:position].strip()
    return text, ""


def _without_tags(text: str, reasoning: str) -> tuple[str, str]:
    """Some servers give the reasoning in a field and leave the same words tagged in the content."""
    answer, thought = split_tags(text)
    if not thought:
        return text, reasoning
    if thought.strip() == reasoning.strip():
        return answer, reasoning
    return answer, f"{reasoning}\n\n{thought}"


def _is_quoted(text: str, position: int) -> bool:
    """True: the place lies in a code fence or in backticks."""
    before = text[:position]
    if len(_FENCE.findall(before)) % 2 == 1:
        return True
    return before[before.rfind("\n") + 1 :].count("`") % 2 == 1


def _content(content: object) -> tuple[str, str, tuple[str, ...]]:
    """(text, reasoning, unknown kinds) of content that is a string, null or a list of parts (b07)."""
    if isinstance(content, str):
        return clean_text(content), "", ()
    if not isinstance(content, list):
        return "", "", () if content is None else (type(content).__name__,)
    texts: list[str] = []
    thoughts: list[str] = []
    unknown: list[str] = []
    for part in content:
        kind = str(part.get("type")) if isinstance(part, dict) else type(part).__name__
        if isinstance(part, str):
            texts.append(part)
        elif kind in {"text", "output_text"}:
            texts.append(_plain(part.get("text")))
        elif kind in {"thinking", "reasoning"}:
            thoughts.append(_plain(part.get("thinking") or part.get("reasoning") or part.get("text")))
        elif kind == "refusal":
            texts.append(_plain(part.get("refusal")))
        else:
            unknown.append(kind[:40])
    return clean_text("".join(texts)), clean_text("".join(thoughts)), tuple(unknown)


def _plain(value: object) -> str:
    """A string, or the texts of a part or of a nested list of parts."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(map(_plain, value))
    if isinstance(value, dict):
        return next(filter(None, (_plain(value.get(key)) for key in ("text", "content", "thinking", "summary"))), "")
    return ""


def _details(message: Mapping[str, Any]) -> tuple[str, bool]:
    """(text, signed) of `reasoning_details` (OpenRouter) and `thinking_blocks` (LiteLLM)."""
    texts: list[str] = []
    signed = False
    for key in ("reasoning_details", "thinking_blocks"):
        blocks = message.get(key)
        for block in blocks if isinstance(blocks, list) else ():
            if not isinstance(block, dict):
                continue
            signed = signed or bool(block.get("signature") or block.get("data"))
            texts.append(_plain(block.get("text") or block.get("summary") or block.get("thinking")))
        if any(texts):
            break
    return clean_text("".join(texts)), signed
