"""Unified diffs, pure: parse one, apply it to texts."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from batchrun_runner.tools.context import ToolErrorKind, ToolFailure

_HUNK = re.compile(r"^@@(?: -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@)?")
_NO_FILE = "/dev/null"


@dataclass(slots=True)
class Hunk:
    """Lines to find and lines to put in their place, without their ends. `start` is the stated line, 0 if none was."""

    start: int
    header: str
    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    blank: int = 0
    """Empty lines at the end so far: context with its blank stripped, or what lies between two files."""
    new_ends_open: bool = False
    """The new last line has no line end (`\\ No newline at end of file`)."""


@dataclass(slots=True)
class FilePatch:
    """Hunks of one file. `creates` when the old side is /dev/null."""

    path: str
    creates: bool
    hunks: list[Hunk] = field(default_factory=list)


def parse(diff: str, default_path: str) -> list[FilePatch]:
    """The patches of a unified diff; one without file headers is for `default_path`. Raises ToolFailure."""
    patches: list[FilePatch] = []
    hunk: Hunk | None = None
    old_path = ""
    lines = diff.replace("\r\n", "\n").removesuffix("\n").split("\n")
    for number, line in enumerate(lines, 1):
        next_line = lines[number] if number < len(lines) else ""
        if line.startswith("diff "):
            hunk = None
        elif line.startswith("--- ") and next_line.startswith("+++ "):
            old_path, hunk = _header_path(line), None
        elif line.startswith("+++ ") and hunk is None:
            patches.append(_file_patch(old_path, _header_path(line), default_path))
        elif line.startswith("@@"):
            hunk = _start_hunk(line, number, patches, default_path)
        elif hunk is not None:
            _add_line(hunk, line, number)
    if not any(patch.hunks for patch in patches):
        raise _bad("there is no hunk (@@) in the patch")
    return patches


def _start_hunk(line: str, number: int, patches: list[FilePatch], default_path: str) -> Hunk:
    if not patches:
        if not default_path:
            raise _bad("the patch names no file (--- and +++ lines), and path is empty")
        patches.append(FilePatch(default_path, creates=False))
    match = _HUNK.match(line)
    if match is None:
        raise _bad(f"line {number} is no hunk header: {line[:80]}")
    hunk = Hunk(start=int(match[1] or 0), header=line[:80])
    patches[-1].hunks.append(hunk)
    return hunk


def _header_path(line: str) -> str:
    return line[4:].split("\t", maxsplit=1)[0].strip()


def _file_patch(old: str, new: str, default_path: str) -> FilePatch:
    if new == _NO_FILE:
        raise _bad(f"the patch deletes {old}; delete files in the terminal")
    path = new.removeprefix("b/") if old == _NO_FILE or old.startswith("a/") else new
    return FilePatch(default_path or path, creates=old == _NO_FILE)


def _add_line(hunk: Hunk, line: str, number: int) -> None:
    mark, text = line[:1], line[1:]
    if mark == "":
        hunk.blank += 1
        return
    if mark in " +-":
        hunk.old.extend([""] * hunk.blank)
        hunk.new.extend([""] * hunk.blank)
        hunk.blank = 0
    match mark:
        case " ":
            hunk.old.append(text)
            hunk.new.append(text)
        case "-":
            hunk.old.append(text)
        case "+":
            hunk.new.append(text)
            hunk.new_ends_open = False
        case "\\":
            hunk.new_ends_open = True
        case _:
            raise _bad(f"line {number} begins neither with a blank, + nor -: {line[:80]}")


def apply(patch: FilePatch, text: str) -> str:
    """The patched text. Hunks are found by their lines; stated numbers only choose between equal places."""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = text.replace("\r\n", "\n").split("\n") if text else []
    ends_open = bool(lines) and lines[-1] != ""
    if lines and not ends_open:
        lines.pop()
    moved = 0
    for hunk in patch.hunks:
        at = _find(lines, hunk, hunk.start - 1 + moved, patch.path)
        touches_end = at + len(hunk.old) == len(lines)
        lines[at : at + len(hunk.old)] = hunk.new
        moved += len(hunk.new) - len(hunk.old)
        if touches_end:
            ends_open = hunk.new_ends_open
    if not lines:
        return ""
    return newline.join(lines) + ("" if ends_open else newline)


def _find(lines: Sequence[str], hunk: Hunk, expected: int, path: str) -> int:
    if not hunk.old:
        return min(max(expected + 1, 0), len(lines)) if hunk.start else len(lines)
    size = len(hunk.old)
    places = [at for at in range(len(lines) - size + 1) if lines[at : at + size] == hunk.old]
    if not places:
        message = f"the hunk {hunk.header!r} does not fit {path}: {_where_it_breaks(lines, hunk)}"
        raise ToolFailure(ToolErrorKind.NO_MATCH, message)
    if hunk.start == 0 and len(places) > 1:
        message = f"the hunk {hunk.header!r} fits {len(places)} places of {path}: give line numbers or more context"
        raise ToolFailure(ToolErrorKind.AMBIGUOUS_MATCH, message)
    return min(places, key=lambda at: abs(at - expected))


def _where_it_breaks(lines: Sequence[str], hunk: Hunk) -> str:
    """The first line of the hunk that is not in the file where the lines before it are."""
    best, best_at = 0, 0
    for at in range(len(lines)):
        length = 0
        while length < len(hunk.old) and at + length < len(lines) and lines[at + length] == hunk.old[length]:
            length += 1
        if length > best:
            best, best_at = length, at
    if best == 0:
        return f"no line is {hunk.old[0]!r}"
    found = repr(lines[best_at + best]) if best_at + best < len(lines) else "the end of the file"
    return f"after line {best_at + best} it wants {hunk.old[best]!r} and finds {found}"


def _bad(message: str) -> ToolFailure:
    return ToolFailure(ToolErrorKind.INVALID_ARGUMENTS, f"patch: {message}")
