"""A row's own settings besides its image and folder, checked and cleaned."""

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from batchrun_api.spec import BatchRunSpec
from batchrun_api.spec.agent import LONGEST_PROMPT_SECONDS, MOST_TURNS
from batchrun_api.spec.sandbox import ResourceList
from batchrun_runner.dataset.faults import RowFault
from batchrun_runner.dataset.own_collect import own_collect
from batchrun_runner.dataset.own_container import CONTAINER_FIELDS, own_container
from batchrun_runner.dataset.own_values import SHOWN_CHARS, command_of, number_of, object_of, text_of
from batchrun_runner.records import RowFile, Verify
from batchrun_runner.text import clean_text, one_line

OWN_FIELDS = CONTAINER_FIELDS | {"env", "files", "setup", "verify", "collect", "timeoutSeconds", "maxTurns"}
FILES_LIMIT_BYTES = 1024 * 1024
"""Of all files of a row together: every row of a batch is in its runner's memory."""
FILES_LIMIT = 200
ENV_LIMIT = 100
ENV_LIMIT_BYTES = 32 * 1024
PATH_LIMIT_BYTES = 1024
VERIFY_LIMIT_SECONDS = 86400

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_RESERVED = "BATCHRUN_"
_VERIFY_FIELDS = ("command", "files", "timeoutSeconds")


@dataclass(frozen=True, slots=True)
class RowBounds:
    """The most that a row may ask for, which is what the spec says for all of them. None: the spec has no limit."""

    max_turns: int = MOST_TURNS
    timeout_seconds: int | None = None
    resources: ResourceList = field(default_factory=ResourceList)

    @classmethod
    def of(cls, spec: BatchRunSpec) -> Self:
        """Those of a run."""
        return cls(spec.agent.max_turns, spec.agent.timeout_seconds, spec.sandbox.largest)


@dataclass(frozen=True, slots=True)
class OwnSettings:
    """What a row sets for itself."""

    fields: dict[str, Any]
    """Of a PromptRow: only those that are set."""
    acting: dict[str, Any]
    """What of it is part of the prompt's key (docs/decisions/0008), as JSON."""


def own_settings(row: Mapping[str, Any], bounds: RowBounds) -> OwnSettings:
    """The settings in a row; a key that is null is not set. Raises RowFault."""
    given = {name: row[name] for name in OWN_FIELDS if row.get(name) is not None}
    fields: dict[str, Any] = {}
    acting: dict[str, Any] = {}
    if "env" in given and (env := _env(given["env"])):
        fields["env"] = acting["env"] = env
    if "files" in given and (files := _files(given["files"], "files")):
        fields["files"], acting["files"] = files, _acting(files)
    if "setup" in given:
        fields["setup"] = acting["setup"] = command_of(given["setup"], "setup")
    if "verify" in given:
        fields["verify"], acting["verify"] = _verify(given["verify"])
    if "maxTurns" in given:
        fields["max_turns"] = number_of(given["maxTurns"], "maxTurns", bounds.max_turns, "agent.maxTurns")
    if "timeoutSeconds" in given:
        most = bounds.timeout_seconds or LONGEST_PROMPT_SECONDS
        named = "agent.timeoutSeconds" if bounds.timeout_seconds else ""
        fields["timeout_seconds"] = number_of(given["timeoutSeconds"], "timeoutSeconds", most, named)
    if "collect" in given:
        fields["collect"] = own_collect(given["collect"])
    if CONTAINER_FIELDS & given.keys():
        container = fields["container"] = own_container(given, bounds.resources)
        if container.user:
            acting["user"] = container.user
    verify: Verify | None = fields.get("verify")
    _check_size([*fields.get("files", ()), *(verify.files if verify else ())])
    return OwnSettings(fields, acting)


def _env(value: Any) -> dict[str, str]:
    env: dict[str, str] = {}
    for name, text in object_of(value, "env", '{"NAME": "value"}').items():
        place = f"`env.{one_line(name, SHOWN_CHARS)}`"
        if not _ENV_NAME.fullmatch(name):
            raise RowFault(
                f"{place} is no name of an environment variable",
                "use letters, digits and _, at most 128 of them, and no digit at the start",
            )
        if name.startswith(_RESERVED):
            raise RowFault(f"{place} begins with {_RESERVED}, which is ours", "give it another name")
        env[name] = text_of(text, place)
    if len(env) > ENV_LIMIT:
        raise RowFault(f"`env` has {len(env)} variables, more than {ENV_LIMIT}", "put them into a file of `files`")
    size = sum(len(name.encode()) + len(text.encode()) for name, text in env.items())
    if size > ENV_LIMIT_BYTES:
        raise RowFault(f"`env` has {size} bytes, more than {ENV_LIMIT_BYTES}", "put them into a file of `files`")
    return env


def _files(value: Any, where: str) -> tuple[RowFile, ...]:
    shape = '{"path": "text"} or {"path": {"base64": "..."}}'
    return tuple(_file(path, content, where) for path, content in object_of(value, where, shape).items())


def _file(path: str, content: Any, where: str) -> RowFile:
    place = f"`{where}` {one_line(path, SHOWN_CHARS)!r}"
    path = clean_text(path)
    if not path or path.endswith("/") or "\0" in path or len(path.encode()) > PATH_LIMIT_BYTES:
        raise RowFault(
            f"{place} is no path of a file",
            f"give a path of 1 to {PATH_LIMIT_BYTES} bytes, relative to the working directory or absolute",
        )
    if isinstance(content, str):
        return RowFile(path, text=clean_text(content))
    if isinstance(content, dict) and list(content) == ["base64"] and isinstance(content["base64"], str):
        try:
            data = base64.b64decode(content["base64"], validate=True)
        except (binascii.Error, ValueError) as error:
            raise RowFault(f"{place} is not base64 ({error})", "encode the file again, without line breaks") from error
        # Written anew, so that one content has one spelling in a key.
        return RowFile(path, base64=base64.b64encode(data).decode())
    raise RowFault(f"{place} is neither a string nor {{'base64': string}}", "give the text, or the bytes in base64")


def _acting(files: tuple[RowFile, ...]) -> dict[str, Any]:
    return {file.path: {"base64": file.base64} if file.base64 else file.text for file in files}


def _check_size(files: list[RowFile]) -> None:
    if len(files) > FILES_LIMIT:
        raise RowFault(
            f"it brings {len(files)} files, more than {FILES_LIMIT}", "pack them, or put them into the image"
        )
    size = sum(file.size_bytes for file in files)
    if size > FILES_LIMIT_BYTES:
        raise RowFault(
            f"its files have {size} bytes together, more than {FILES_LIMIT_BYTES}",
            "put large files into the image, or fetch them in `setup`",
        )


def _verify(value: Any) -> tuple[Verify, dict[str, Any]]:
    verify = object_of(value, "verify", '{"command": "..."}')
    for name in verify:
        if name not in _VERIFY_FIELDS:
            raise RowFault(
                f"`verify` has the key {one_line(name, SHOWN_CHARS)!r}, which it does not know",
                f"remove it; there are {', '.join(_VERIFY_FIELDS)}",
            )
    if verify.get("command") is None:
        raise RowFault("`verify` has no `command`", 'write {"command": "..."}')
    command = command_of(verify["command"], "verify.command")
    files = _files(verify["files"], "verify.files") if verify.get("files") is not None else ()
    seconds = verify.get("timeoutSeconds")
    if seconds is not None:
        seconds = number_of(seconds, "verify.timeoutSeconds", VERIFY_LIMIT_SECONDS, "")
    acting = {"command": command} | ({"files": _acting(files)} if files else {})
    return Verify(command, files, seconds), acting
