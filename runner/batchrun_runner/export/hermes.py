"""`hermes`: ShareGPT turns with tagged calls, and the tools in the system turn, as the reference writes them."""

import json
from collections.abc import Iterator
from typing import Any

from batchrun_runner.agent.conversation import gpt_value
from batchrun_runner.export.turns import Call, Result, Said, said

KEPT = (
    "metadata",
    "completed",
    "partial",
    "api_calls",
    "toolsets_used",
    "tool_stats",
    "tool_error_counts",
)
"""The reference's keys beside `prompt_index` and `conversations`, then ours."""
OURS = ("key", "id", "outcome", "reason", "reward")

_INSTRUCTION = """\
You are an AI model that can call functions. The functions that you may call are described by the signatures \
within <tools> </tools> XML tags. Call one or more of them where they help with the user's query; where none does, \
answer in plain language. Do not guess values for their arguments. The results of your calls come back within \
<tool_response> </tool_response> XML tags. The available tools:
<tools>
{tools}
</tools>
Write each call as one JSON object with the function's name and its arguments, within <tool_call> </tool_call> XML tags:
<tool_call>
{{"name": <name of the function>, "arguments": <object of arguments>}}
</tool_call>"""


def hermes_row(row: dict[str, Any], *, with_reasoning: bool) -> dict[str, Any]:
    """One example: the reference's keys and ours. `with_reasoning` False: no think blocks at all."""
    turns = list(said(row["conversations"]))
    instruction = _INSTRUCTION.format(tools=_tools(json.loads(row["tools"])))
    if turns and turns[0].role == "system":
        own = turns.pop(0).text
        # A row of the reference has its instruction already.
        instruction = own if "<tools>" in own else f"{own}\n\n{instruction}"
    values = [("system", instruction), *_values(turns, with_reasoning=with_reasoning)]
    return {
        "prompt_index": row["prompt_index"],
        "conversations": [{"from": role, "value": value} for role, value in values],
        **{name: row[name] for name in (*KEPT, *OURS)},
    }


def _tools(schemas: list[dict[str, Any]]) -> str:
    functions = [schema["function"] for schema in schemas]
    return _json(
        [
            {
                "name": function["name"],
                "description": function.get("description", ""),
                "parameters": function.get("parameters", {}),
                "required": None,
            }
            for function in functions
        ]
    )


def _values(turns: list[Said], *, with_reasoning: bool) -> Iterator[tuple[str, str]]:
    for turn in turns:
        if turn.role == "gpt":
            yield "gpt", _reply(turn, with_reasoning=with_reasoning)
        elif turn.role == "tool":
            yield "tool", "\n".join(_response(result) for result in turn.results)
        else:
            yield turn.role, turn.text


def _reply(turn: Said, *, with_reasoning: bool) -> str:
    """Every reply has a think block, an empty one where nothing is known: one form for all."""
    text = gpt_value(turn.text, turn.reasoning) if turn.reasoning else f"<think>\n</think>\n{turn.text}"
    parts = [text if with_reasoning else turn.text, *(_tagged(call) for call in turn.calls)]
    return "\n".join(part.rstrip("\n") for part in parts if part)


def _tagged(call: Call) -> str:
    return _block("tool_call", {"name": call.name, "arguments": json.loads(call.arguments)})


def _response(result: Result) -> str:
    """A result that is JSON stands there as JSON, not as a string that holds it."""
    content: Any = result.content
    if content.lstrip().startswith(("{", "[")):
        try:
            content = json.loads(content, parse_constant=_no_json)
        except ValueError:
            content = result.content
    return _block("tool_response", {"tool_call_id": result.call_id, "name": result.name, "content": content})


def _block(tag: str, document: dict[str, Any]) -> str:
    """JSON between tags; a closing tag in it is escaped, so that the first one is the end."""
    end = f"</{tag}>"
    body = _json(document).replace(end, f"\\u003c/{tag}>")
    return f"<{tag}>\n{body}\n{end}"


def _no_json(word: str) -> None:
    raise ValueError(word)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
