"""Search and replace in a text, pure: exact, and plain about why not."""

from dataclasses import dataclass

from batchrun_runner.tools.context import ToolErrorKind, ToolFailure

_MAX_SHOWN_LINES = 8


@dataclass(frozen=True, slots=True)
class Edited:
    """The new text, and the lines (from 1) of the old text where something was replaced."""

    text: str
    lines: tuple[int, ...]


def replace_text(text: str, old: str, new: str, *, replace_all: bool, name: str) -> Edited:
    """`text` with `old` replaced by `new`. Raises ToolFailure when `old` is not there exactly once (or at all).

    Where the file ends its lines in CRLF and `old` does not, both are taken with CRLF.
    """
    if not old:
        raise ToolFailure(ToolErrorKind.INVALID_ARGUMENTS, "old_string: is empty; use write_file to make a new file")
    if old == new:
        raise ToolFailure(ToolErrorKind.INVALID_ARGUMENTS, "new_string: is the same as old_string")
    if old not in text and "\r\n" in text and "\r\n" not in old:
        old, new = old.replace("\n", "\r\n"), new.replace("\r\n", "\n").replace("\n", "\r\n")
    places = _places(text, old)
    if not places:
        raise ToolFailure(ToolErrorKind.NO_MATCH, f"old_string does not occur in {name}. {_hint(text, old)}")
    lines = tuple(text.count("\n", 0, place) + 1 for place in places)
    if len(places) > 1 and not replace_all:
        shown = ", ".join(str(line) for line in lines[:_MAX_SHOWN_LINES])
        message = (
            f"old_string occurs {len(places)} times in {name} (lines {shown}): add lines around it, or set replace_all"
        )
        raise ToolFailure(ToolErrorKind.AMBIGUOUS_MATCH, message)
    return Edited(text.replace(old, new), lines)


def _places(text: str, old: str) -> list[int]:
    places = []
    place = text.find(old)
    while place >= 0:
        places.append(place)
        place = text.find(old, place + len(old))
    return places


def _hint(text: str, old: str) -> str:
    """Where the first line of what was sought does occur: white space is the usual fault."""
    first = next((line.strip() for line in old.splitlines() if line.strip()), "")
    if not first:
        return "It is nothing but white space."
    near = [str(number) for number, line in enumerate(text.split("\n"), 1) if first in line]
    if not near:
        return "Its first line does not occur either: read the file again."
    shown = ", ".join(near[:_MAX_SHOWN_LINES])
    return f"Its first line occurs in line {shown}: compare white space and the lines after it."
