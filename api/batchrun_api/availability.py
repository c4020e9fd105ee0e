"""Which toolsets work in a run, from its spec alone (docs/decisions/0017)."""

from pydantic.alias_generators import to_snake

from batchrun_api.spec.run import BatchRunSpec
from batchrun_api.toolsets import NEEDS, TOOLSETS, WORKING_TOOLSETS


def lacks(spec: BatchRunSpec) -> dict[str, str]:
    """What each unavailable toolset lacks, in a few words."""
    missing: dict[str, str] = {}
    for toolset in TOOLSETS:
        if toolset not in WORKING_TOOLSETS:
            missing[toolset] = "does not work in this version"
            continue
        fields = [field for field in NEEDS.get(toolset, ()) if not _is_set(spec, field)]
        if fields:
            missing[toolset] = f"needs {' and '.join(fields)}"
    return missing


def available(spec: BatchRunSpec) -> frozenset[str]:
    """Toolsets that can be drawn."""
    return frozenset(known_toolsets(spec)) - frozenset(lacks(spec))


def known_toolsets(spec: BatchRunSpec) -> tuple[str, ...]:
    """The built-in toolsets, and those of the run's own MCP servers."""
    return (*TOOLSETS, *(server.name for server in spec.tools.mcp_servers))


def _is_set(spec: BatchRunSpec, field: str) -> bool:
    return getattr(spec.tools, to_snake(field.removeprefix("tools."))) is not None
