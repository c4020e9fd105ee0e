"""Scripts of the demo model: what it answers, turn by turn.

A prompt carries its own script in a fenced block, a JSON list of turns:

    ```demo
    [{"reasoning": "I look.", "tool_calls": [{"name": "terminal", "arguments": {"command": "ls"}}]},
     {"content": "There are two files."}]
    ```

`--script FILE` is a JSON or YAML list of entries; the first whose regular expression is found in the prompt is played:

    [{"match": "eigenvalues", "turns": [{"content": "1, 2 and 3."}]},
     {"match": "", "turns": [[{"status": 429, "headers": {"retry-after": "0"}}, {"content": "now it works"}]]}]

Turns are played by number: that of the assistant messages after the prompt. Beyond the last one it is played again.
A turn that is itself a list holds attempts: its first element answers the first request at this point of the
conversation, the second the next one, and the last one all that follow.

A turn has these keys, all optional:

    content         text of the message, or a list of parts; null is sent as null
    reasoning       reasoning text
    tool_calls      list of {name, arguments, id}; arguments: an object is sent as a JSON string, a string as it is;
                    without id one is made from the conversation
    finish_reason   default: tool_calls with calls, else stop
    message         object laid over the finished message, for forms that no key above gives
    usage           sent in place of the counted one; null is sent as null
    omit            names of keys of the reply that are left out, such as ["usage"]
    status          HTTP status, default 200; an error status without body gets an OpenAI-style error
    body            the whole body: an object is sent as JSON, a string as it is
    headers         more headers of the reply
    delay_ms        milliseconds before the reply
    stream_fault    of a streamed reply. silent: it ends in the middle as if it were done; error: by an error event
    fault           hang: no reply ever; drip: a space every 50 ms, for ever; cut: half the body, then closed
"""

import re
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from batchrun_api.wording import plain_words
from batchrun_runner.demo_model.http import Fault


class ScriptError(ValueError):
    """A script cannot be used; the message says where and why."""


class _Scripted(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ScriptedCall(_Scripted):
    """One tool call of a turn."""

    name: str
    arguments: dict[str, Any] | str = Field(default_factory=dict)
    id: str | None = None


class Turn(_Scripted):
    """One reply; the module's docstring describes the keys."""

    content: str | list[Any] | None = None
    reasoning: str | None = None
    tool_calls: tuple[ScriptedCall, ...] = ()
    finish_reason: str | None = None
    message: dict[str, Any] = Field(default_factory=dict)
    usage: Any = None
    omit: tuple[str, ...] = ()
    status: Annotated[int, Field(ge=200, le=599)] = 200
    body: Any = None
    headers: dict[str, str] = Field(default_factory=dict)
    delay_ms: Annotated[int, Field(ge=0, le=3_600_000)] = 0
    fault: Fault | None = None
    stream_fault: Literal["silent", "error"] | None = None


Attempts = Annotated[tuple[Turn, ...], Field(min_length=1)]
Turns = Annotated[tuple[Turn | Attempts, ...], Field(min_length=1)]


class Entry(_Scripted):
    """Which prompts a script is for, and its turns."""

    match: str
    turns: Turns

    def found_in(self, prompt: str) -> bool:
        """True: this entry's regular expression is found in the prompt."""
        return re.search(self.match, prompt) is not None


Script = tuple[Entry, ...]

_TURNS = TypeAdapter(Turns)
_SCRIPT = TypeAdapter(Script)
_FENCED = re.compile(r"^```demo[ \t]*\r?\n(.*?)^```", re.MULTILINE | re.DOTALL)


def load_script(path: Path) -> Script:
    """The script in a file. Raises ScriptError when it is none, OSError when it cannot be read."""
    try:
        text = path.read_bytes()
        script = _SCRIPT.validate_json(orjson.dumps(yaml.safe_load(text)) if path.suffix in {".yaml", ".yml"} else text)
        for entry in script:
            re.compile(entry.match)
    except (ValidationError, re.error, yaml.YAMLError, TypeError) as error:
        raise ScriptError(f"{path.name}: {_in_one_line(error)}") from error
    return script


def parse_script(entries: list[dict[str, Any]]) -> Script:
    """The same from Python values. Raises ScriptError."""
    try:
        return _SCRIPT.validate_json(orjson.dumps(entries))
    except ValidationError as error:
        raise ScriptError(_in_one_line(error)) from error


def find_turns(prompt: str, script: Script) -> Turns | None:
    """The turns for a prompt: its own fenced block first, then the script; None: it has none. Raises ScriptError."""
    if "```demo" in prompt:
        block = _FENCED.search(prompt)
        if block is not None:
            return _parse_block(block.group(1))
    return next((entry.turns for entry in script if entry.found_in(prompt)), None)


@lru_cache(maxsize=1024)
def _parse_block(text: str) -> Turns:
    try:
        return _TURNS.validate_json(text)
    except ValidationError as error:
        raise ScriptError(f"the prompt's ```demo block: {_in_one_line(error)}") from error


def _in_one_line(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return f"{type(error).__name__}: {error}".replace("\n", " ")
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"]) or "the document"
    return f"{place}: {plain_words(first)}"
