"""The statistics for a terminal."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from batchrun_api.plan import total_in_words
from batchrun_api.text import counted
from batchrun_runner.merge.run_statistics import Statistics


def render_table(statistics: Statistics) -> RenderableType:
    """Outcomes with their reasons, tools, reasoning, tokens and times, for rich to print."""
    document = statistics.document
    parts: list[RenderableType] = [_outcomes(document)]
    if document["tool_statistics"]:
        parts.append(_tools(document["tool_statistics"]))
    parts.append(_facts(document))
    return Group(*parts)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    return table


def _outcomes(document: Mapping[str, Any]) -> Table:
    total = total_in_words(document["total_prompts"], document["samples_per_prompt"])
    table = _table(f"{document['run_name']}: {total}", "outcome", f"{_unit(document)}s", "share")
    for name, count in document["outcomes"].items():
        if count or name == "completed":
            table.add_row(name.replace("_", " "), f"{count:,}", _share(count, document["total_prompts"]))
    for reason, count in document["reasons"].items():
        table.add_row(Text(f"  {reason}", style="dim"), f"{count:,}", _share(count, document["total_prompts"]))
    if document["orphaned"]:
        table.add_row("orphaned (beside the total)", f"{document['orphaned']:,}", "")
    return table


def _tools(tools: Mapping[str, Mapping[str, Any]]) -> Table:
    table = _table("tool calls", "tool", "calls", "success", "failure", "success rate")
    for name, stat in sorted(tools.items(), key=lambda item: -item[1]["count"]):
        rate = f"{stat['success_rate']:.2f} %"
        table.add_row(name, f"{stat['count']:,}", f"{stat['success']:,}", f"{stat['failure']:,}", rate)
    return table


def _facts(document: Mapping[str, Any]) -> Table:
    tokens, seconds, reasoning = (document[name] for name in ("tokens", "seconds", "reasoning_statistics"))
    table = Table.grid(padding=(0, 2))
    table.add_row("model", Text(document["model"]))
    table.add_row(
        "reasoning",
        f"{reasoning['turns_with_reasoning']:,} of {reasoning['total_assistant_turns']:,} assistant turns "
        f"({reasoning['reasoning_rate']:.2f} %)",
    )
    table.add_row(
        "tokens",
        f"{tokens['total_tokens']:,} ({tokens['prompt_tokens']:,} in, {tokens['completion_tokens']:,} out, "
        f"{tokens['reasoning_tokens']:,} of them reasoning)",
    )
    if (reward := document["reward"])["count"]:
        table.add_row("reward", f"{reward['mean']:.4f} on average, of {counted(reward['count'], _unit(document))}")
        for what, words in _passing(document["pass_at_k"]):
            table.add_row(what, words)
    table.add_row("model calls", f"{document['api_calls']:,}")
    table.add_row(
        "time",
        f"{seconds['active']:,.1f} s active, {seconds['prompts']:,.1f} s in prompts ({seconds['model']:,.1f} model, "
        f"{seconds['tools']:,.1f} tools, {seconds['sandbox']:,.1f} sandbox)",
    )
    return table


def _share(count: int, total: int) -> str:
    return f"{100 * count / total:.1f} %" if total else ""


def _unit(document: Mapping[str, Any]) -> str:
    return "prompt" if document["samples_per_prompt"] == 1 else "sample"


def _passing(passing: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """pass@k for 1, the powers of two and the last k; then what has no reward."""
    found = passing["estimates"]
    for item in found:
        if item["k"].bit_count() == 1 or item is found[-1]:
            yield f"pass@{item['k']}", f"{item['value']:.4f}, over {counted(item['prompts'], 'prompt')}"
    names = ("not_judged", "failed", "not_run")
    without = [f"{passing['samples'][name]:,} {name.replace('_', ' ')}" for name in names if passing["samples"][name]]
    if without:
        yield "no reward", ", ".join(without)
