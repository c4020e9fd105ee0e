"""What a text repeats of another one, however often either was escaped on its way: servers echo requests."""

import re

LEAST_COMMON_CHARS = 16
"""Fewer characters than this in common are taken for chance."""
_ESCAPED = re.compile(r"\\+(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[nrtbf])?")
_GAP = "\ufffc"


def plain(text: str) -> str:
    """The text in a form that is the same for a text and for its JSON or Python escapes, nested as deep as they like.

    Lower case, blanks and line breaks as one blank, no backslashes.
    """
    joined = _ESCAPED.sub(_unescaped, text).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return " ".join(joined.lower().split())


def _unescaped(escape: re.Match[str]) -> str:
    code = escape.group(1) or ""
    return chr(int(code[1:], 16)) if len(code) > 1 else " " if code else ""


def without_echoes(text: str, other: str) -> str:
    """Both plain: the text with each piece of at least 16 characters that it shares with the other as one U+FFFC."""
    size = LEAST_COMMON_CHARS
    shared = pieces(text, size).intersection(other[start : start + size] for start in range(len(other) - size + 1))
    kept: list[str] = []
    echoed_to = 0
    for place, char in enumerate(text):
        if text[place : place + size] in shared:
            kept += () if place < echoed_to else (_GAP,)
            echoed_to = place + size
        elif place >= echoed_to:
            kept.append(char)
    return "".join(kept)


def says(pattern: re.Pattern[str], text: str, other: str) -> bool:
    """Both plain: has the text a match that does not stand in the other, be it ever so short?"""
    return any(match.group() not in other for match in pattern.finditer(text))


def pieces(text: str, size: int) -> set[str]:
    """All pieces of so many characters."""
    return {text[start : start + size] for start in range(len(text) - size + 1)}
