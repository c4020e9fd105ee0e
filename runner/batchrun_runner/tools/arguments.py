"""Arguments of a call, made safe and checked before anything runs."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from batchrun_runner.tools.context import ToolErrorKind, ToolFailure

_MAX_SHOWN_ERRORS = 5


class Arguments(BaseModel):
    """Base of all tools' arguments: an argument that the tool does not know is refused, not ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


A = TypeVar("A", bound=Arguments)


def check(model: type[A], arguments: Mapping[str, Any]) -> A:
    """The arguments as `model`. Raises ToolFailure naming each wrong field.

    Halves of surrogate pairs become U+FFFD; a NUL, which no path, command or variable can carry, is refused.
    """
    cleaned = {name: _clean(name, value) for name, value in arguments.items()}
    try:
        return model.model_validate(cleaned)
    except ValidationError as error:
        known = ", ".join(model.model_fields)
        shown = "; ".join(_describe(item, known) for item in error.errors()[:_MAX_SHOWN_ERRORS])
        raise ToolFailure(ToolErrorKind.INVALID_ARGUMENTS, shown) from error


def _clean(name: str, value: Any) -> Any:
    if isinstance(value, str):
        if "\0" in value:
            raise ToolFailure(ToolErrorKind.INVALID_ARGUMENTS, f"{name}: contains a NUL character (U+0000)")
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value


def _describe(item: Any, known: str) -> str:
    field = ".".join(str(part) for part in item["loc"]) or "arguments"
    if item["type"] == "extra_forbidden":
        return f"{field}: there is no such argument (there are: {known})"
    return f"{field}: {item['msg'].removeprefix('Value error, ')}"
