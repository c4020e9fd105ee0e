"""A row's `collect`: which files and which command's output are brought out (docs/decisions/0014)."""

import posixpath
from typing import Any

from batchrun_runner.dataset.faults import RowFault, kind_of
from batchrun_runner.dataset.own_values import SHOWN_CHARS, command_of, number_of, object_of, only_known, text_of
from batchrun_runner.records import Collect
from batchrun_runner.text import one_line

PATHS_LIMIT = 100
PATH_LIMIT_BYTES = 1024
COLLECT_LIMIT_SECONDS = 86400

_FIELDS = ("paths", "command", "restore", "timeoutSeconds")


def own_collect(value: Any) -> Collect:
    """The setting, checked and cleaned. Raises RowFault."""
    given = object_of(value, "collect", '{"paths": ["answer.py"]} or {"command": "git diff"}')
    only_known(given, "collect", _FIELDS)
    paths = _paths(given["paths"]) if given.get("paths") is not None else ()
    command = command_of(given["command"], "collect.command") if given.get("command") is not None else ""
    restore = command_of(given["restore"], "collect.restore") if given.get("restore") is not None else ""
    if not paths and not command:
        raise RowFault("`collect` has neither `paths` nor `command`", "name what is to be brought out, or remove it")
    if restore and not command:
        raise RowFault("`collect.restore` has no `collect.command` whose output it could use", "remove it")
    seconds = given.get("timeoutSeconds")
    if seconds is not None:
        seconds = number_of(seconds, "collect.timeoutSeconds", COLLECT_LIMIT_SECONDS, "")
    return Collect(paths, command, restore, seconds)


def _paths(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise RowFault(f"`collect.paths` is {kind_of(value, article=True)}, not a list", 'write ["answer.py", "out"]')
    if len(value) > PATHS_LIMIT:
        raise RowFault(f"`collect.paths` has {len(value)} paths, more than {PATHS_LIMIT}", "name a folder of them")
    return tuple(dict.fromkeys(_path(item) for item in value))


def _path(value: Any) -> str:
    path = text_of(value, "a path in `collect.paths`")
    place = f"`collect.paths` {one_line(path, SHOWN_CHARS)!r}"
    if not path or len(path.encode()) > PATH_LIMIT_BYTES:
        raise RowFault(f"{place} is no path", f"give one of 1 to {PATH_LIMIT_BYTES} bytes")
    if ".." in path.split("/"):
        raise RowFault(f"{place} goes up by ..", "give a path below the working directory, or an absolute one")
    if path.startswith("~"):
        raise RowFault(f"{place} begins with ~", "give a path below the working directory, or an absolute one")
    return posixpath.normpath("/" + path.lstrip("/") if path.startswith("/") else path)
