"""Values of a row's own settings: each checked for its type and bound, with place and fix where it is wrong."""

from typing import Any

from batchrun_runner.dataset.faults import RowFault, kind_of
from batchrun_runner.text import clean_text, one_line

COMMAND_LIMIT_BYTES = 100 * 1024
"""Below what the kernel takes as one argument, with room for what the helper adds."""
SHOWN_CHARS = 60


def object_of(value: Any, where: str, shape: str) -> dict[str, Any]:
    """An object; `shape` shows one. Raises RowFault, as all of these."""
    if not isinstance(value, dict):
        raise RowFault(f"`{where}` is {kind_of(value, article=True)}, not an object", f"write {shape}")
    return value


def only_known(value: dict[str, Any], where: str, known: tuple[str, ...]) -> None:
    """No key that the setting does not know."""
    for name in value:
        if name not in known:
            shown = one_line(name, SHOWN_CHARS)
            raise RowFault(f"`{where}` has the key {shown!r}, which it does not know", f"use {', '.join(known)}")


def command_of(value: Any, where: str) -> str:
    """A shell command that is not empty."""
    command = text_of(value, f"`{where}`")
    if not command.strip():
        raise RowFault(f"`{where}` is empty", "give a shell command or remove it")
    if (size := len(command.encode())) > COMMAND_LIMIT_BYTES:
        raise RowFault(
            f"`{where}` has {size} bytes, more than {COMMAND_LIMIT_BYTES}", "put it into a file and run that"
        )
    return command


def text_of(value: Any, place: str) -> str:
    """A string without U+0000, cleaned."""
    if not isinstance(value, str):
        raise RowFault(f"{place} is {kind_of(value, article=True)}, not a string", "quote it or remove it")
    if "\0" in value:
        raise RowFault(f"{place} holds the character U+0000", "remove that")
    return clean_text(value)


def number_of(value: Any, where: str, most: int, named: str) -> int:
    """A whole number from 1 to `most`, which is that of the spec's field `named`, if any."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        shown = repr(value)[:SHOWN_CHARS] if isinstance(value, int | float) else kind_of(value, article=True)
        raise RowFault(f"`{where}` is {shown}, not a whole number from 1 on", "correct it or remove it")
    if value > most:
        allowed = f"{most} of {named}" if named else str(most)
        fix = f"lower it or raise {named}" if named else "lower it"
        raise RowFault(f"`{where}` is {one_line(str(value), SHOWN_CHARS)}, more than {allowed}", fix)
    return value
