"""A spec that the schema of another version let through."""

from pydantic import ValidationError

from batchrun_api.wording import plain_words

_SHOWN_PROBLEMS = 5


def explain(error: ValidationError) -> str:
    """The errors with the paths of their fields, without the values: they may be secret."""
    lines = [
        f"spec.{'.'.join(str(part) for part in item['loc'])}: {plain_words(item)}".replace("spec.: ", "")
        for item in error.errors(include_url=False, include_input=False)
    ]
    more = len(lines) - _SHOWN_PROBLEMS
    return "; ".join(lines[:_SHOWN_PROBLEMS]) + (f"; and {more} more" if more > 0 else "")
