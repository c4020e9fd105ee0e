"""The words of a command line as the reference's command line library (python-fire) reads them."""

import ast
import difflib
import re
import shlex
from collections.abc import Iterator, Sequence

PARAMETERS = (
    "dataset_file",
    "batch_size",
    "run_name",
    "distribution",
    "model",
    "api_key",
    "base_url",
    "max_turns",
    "num_workers",
    "resume",
    "verbose",
    "list_distributions",
    "ephemeral_system_prompt",
    "log_prefix_chars",
    "providers_allowed",
    "providers_ignored",
    "providers_order",
    "provider_sort",
    "max_tokens",
    "reasoning_effort",
    "reasoning_disabled",
    "prefill_messages_file",
    "max_samples",
)
"""The reference's parameters in their order: words without a flag fill them one after the other."""

_FLAG = re.compile(r"--|-[A-Za-z](=|$)")


class NotTranslated(Exception):
    """The command line cannot be used; one line that names flags and never shows a value, for it may be a key."""


def given_values(words: Sequence[str]) -> dict[str, str]:
    """By parameter, what was given, as text; the last one wins. Raises NotTranslated for what nobody knows."""
    values: dict[str, str] = {}
    loose: list[str] = []
    unknown: list[str] = []
    for flag, value in _pairs(_arguments(words)):
        if flag is None:
            loose.append(value)
            continue
        name, text = _named(flag, value)
        if name is None:
            unknown.append(flag)
        else:
            values[name] = text
    if unknown:
        raise NotTranslated(f"the reference has no {', '.join(map(_with_guess, unknown))}")
    free = [name for name in PARAMETERS if name not in values]
    if len(loose) > len(free):
        raise NotTranslated(f"{len(loose) - len(free)} words more than the reference has parameters")
    values |= dict(zip(free, loose, strict=False))
    return {name: _literal(value) for name, value in values.items() if value != "None"}


def _arguments(words: Sequence[str]) -> list[str]:
    """Without the program: `python batch_runner.py`, and what stands before it."""
    if len(words) == 1 and " " in words[0]:
        try:
            words = shlex.split(words[0])
        except ValueError as error:
            raise NotTranslated(f"the command line cannot be taken apart: {error}") from error
    programs = [place for place, word in enumerate(words) if word.rsplit("/", 1)[-1] == "batch_runner.py"]
    return list(words[programs[0] + 1 :] if programs else words)


def _pairs(words: list[str]) -> Iterator[tuple[str | None, str]]:
    """(flag, value): a flag before another flag, or at the end, is True; None for a word without a flag."""
    rest = iter(enumerate(words))
    for place, word in rest:
        if not _FLAG.match(word):
            yield None, word
        elif "=" in word:
            flag, _, value = word.partition("=")
            yield flag, value
        elif place + 1 == len(words) or _FLAG.match(words[place + 1]):
            yield word, ""
        else:
            yield word, next(rest)[1]


def _named(flag: str, value: str) -> tuple[str | None, str]:
    """(parameter, value); a bare `--no<name>` is False. None: there is no such parameter."""
    name = flag.lstrip("-").replace("-", "_")
    if len(name) == 1:
        fits = [parameter for parameter in PARAMETERS if parameter.startswith(name)]
        name = fits[0] if len(fits) == 1 else ""
    if name in PARAMETERS:
        return name, value or "True"
    if not value and name.startswith("no") and name[2:].lstrip("_") in PARAMETERS:
        return name[2:].lstrip("_"), "False"
    return None, value


def _with_guess(flag: str) -> str:
    close = difflib.get_close_matches(flag.lstrip("-").replace("-", "_"), PARAMETERS, 1)
    return f"{flag} (did you mean --{close[0]}?)" if close else flag


def _literal(value: str) -> str:
    """Text in quotes of its own is the text within them."""
    if value[:1] in {"'", '"'}:
        try:
            return str(ast.literal_eval(value))
        except (ValueError, SyntaxError):
            pass
    return value
