"""The table of toolset distributions, for people and for programs."""

import json
from io import StringIO

from batchrun_api.toolsets import DISTRIBUTIONS, MEANT_FOR, NEEDS, TOOLSETS, WORKING_TOOLSETS


def render(output: str) -> str:
    """The distributions as `table`, `json` or `yaml`."""
    entries = {
        name: {"meantFor": MEANT_FOR[name], "probabilities": distribution}
        for name, distribution in DISTRIBUTIONS.items()
    }
    if output == "json":
        return json.dumps(entries, indent=2) + "\n"
    if output == "yaml":
        import yaml  # noqa: PLC0415 - see _table

        return yaml.safe_dump(entries, sort_keys=False)
    return _table()


def _table() -> str:
    # Loading these takes longer than everything else that this command does.
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(title="Toolset distributions: probability of each toolset in percent", title_justify="left")
    table.add_column("distribution")
    for toolset in TOOLSETS:
        table.add_column(toolset + _mark(toolset), justify="right")
    table.add_column("meant for")
    for name, distribution in DISTRIBUTIONS.items():
        table.add_row(name, *(str(distribution.get(toolset, "")) for toolset in TOOLSETS), MEANT_FOR[name])
    text = StringIO()
    console = Console(file=text, width=110, force_terminal=False)
    console.print(table)
    fields = ", ".join(field for toolset in TOOLSETS for field in NEEDS.get(toolset, ()))
    console.print(f"° works where the spec has its field: {fields}")
    if frozenset(TOOLSETS) - frozenset(WORKING_TOOLSETS):
        console.print("* does not work in this version")
    console.print("What does not work is refused, or left out with tools.onUnavailable: Drop")
    return text.getvalue()


def _mark(toolset: str) -> str:
    if toolset not in WORKING_TOOLSETS:
        return "*"
    return "°" if toolset in NEEDS else ""
