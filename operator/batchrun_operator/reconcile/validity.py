"""A spec that the schema of another version let through."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from batchrun_api.wording import plain_words

_SHOWN_PROBLEMS = 5


def explain(error: ValidationError, spec: Mapping[str, Any]) -> str:
    """The errors with the paths of their fields in `spec`, without the values: they may be secret."""
    lines = [
        f"{'.'.join(['spec', *_path(item, spec)])}: {plain_words(item)}".removeprefix("spec: ")
        for item in error.errors(include_url=False, include_input=False)
    ]
    more = len(lines) - _SHOWN_PROBLEMS
    return "; ".join(lines[:_SHOWN_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")


def _path(problem: ErrorDetails, value: Any) -> Iterator[str]:
    """The steps that the document has, and a required one that it lacks; members of unions have names between them."""
    for step in problem["loc"]:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            if problem["type"] == "missing" and step == problem["loc"][-1]:
                yield str(step)
        else:
            yield str(step)
