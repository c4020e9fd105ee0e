"""Calls that the server's parser missed and that stand in the text (b19), read only where the run asks for it.

Known forms, each complete and holding strict JSON; anything else is no call:

    <tool_call>{"name": ..., "arguments": {...}}</tool_call>      Hermes, Qwen; one object a block
    <function=NAME>{...}</function>                               Llama 3.1
    [TOOL_CALLS] [{"name": ..., "arguments": {...}}, ...]         Mistral, at the end of the text
"""

import re
from typing import Any

from batchrun_runner.model.clean import loads_leniently

RawCall = dict[str, Any]

_BLOCK = re.compile(
    r"^[ \t]*(?:<tool_call>(?P<hermes>.*?)</tool_call>|<function=(?P<name>[\w.-]+)>(?P<llama>.*?)</function>)[ \t]*\n?",
    re.MULTILINE | re.DOTALL,
)
_MISTRAL = re.compile(r"^[ \t]*\[TOOL_CALLS\](?P<list>.*)\Z", re.MULTILINE | re.DOTALL)


def take_calls(text: str) -> tuple[str, list[RawCall]]:
    """The text without its calls, and the calls as a server would have given them. No calls: the text as it is."""
    calls: list[RawCall] = []
    try:
        for block in _BLOCK.finditer(text):
            if block["hermes"] is not None:
                calls.append(_call(loads_leniently(block["hermes"])))
            else:
                calls.append(_call({"name": block["name"], "arguments": loads_leniently(block["llama"])}))
        rest = _BLOCK.sub("", text)
        if mistral := _MISTRAL.search(rest):
            calls += [_call(item) for item in _listed(loads_leniently(mistral["list"]))]
            rest = rest[: mistral.start()]
    except (ValueError, TypeError, KeyError):
        return text, []  # one that cannot be read: nothing is guessed, and nothing is run
    return (rest.strip("\n"), calls) if calls else (text, [])


def _call(item: Any) -> RawCall:
    if not isinstance(item["name"], str):
        raise TypeError("a name is a string")
    arguments = item.get("arguments", item.get("parameters", {}))
    return {"type": "function", "function": {"name": item["name"], "arguments": arguments}}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
