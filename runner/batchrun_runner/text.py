"""Text for every reader: encodable, in one line, and in right grammar."""

import traceback
from pathlib import Path


def clean_text(text: str) -> str:
    """The text with lone halves of surrogate pairs replaced by U+FFFD; two halves that fit become one character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def without_controls(text: str, *, kept: str = "") -> str:
    """The text with a blank for each character that is not printable, such as a terminal's control sequences have;
    those in `kept` stay.
    """
    return "".join(char if char.isprintable() or char in kept else " " for char in text)


def one_line(text: str, limit_chars: int = 300) -> str:
    """The text without line breaks and other control characters, its middle left out where it is too long.

    Programs say first what they do and last what went wrong, so both ends are kept.
    """
    line = " ".join(without_controls(text).split())
    if len(line) <= limit_chars:
        return line
    head = limit_chars // 3
    return f"{line[:head]} … {line[head + 3 - limit_chars :]}"


def fault_of_ours(error: Exception) -> str:
    """What a report of the fault needs, without the words of an error, which may quote anything."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"a fault of batchrun, please report it: {type(error).__name__} in {Path(frame.filename).name}:{frame.lineno}"
    )
