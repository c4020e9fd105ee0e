"""What each prompt of a run must have drawn, by the rule as docs/tools.md has it; nothing of the code under test."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from batchrun_api.toolsets import ALL_TOOLS, NEEDS, TOOLSETS, WORKING_TOOLSETS
from tests.cluster.harness.images_api import ImagesAPI
from tests.cluster.harness.model import ModelServer
from tests.cluster.harness.web import Site

WORKING = tuple(name for name in TOOLSETS if name in WORKING_TOOLSETS)
"""Toolsets of a run with `settings`, in the table's order."""


def settings(site: Site, api: ImagesAPI, second: ModelServer) -> dict[str, Any]:
    """`spec.tools` with the field of every toolset that works; a new one belongs into the table here, or this fails."""
    model = {"name": "second", "baseURL": second.base_url}
    fields: dict[str, dict[str, Any]] = {
        "tools.web": {"search": {"provider": "SearXNG", "baseURL": site.url}, "allowedRanges": [f"{site.host}/32"]},
        "tools.vision": {"model": model, "allowedRanges": [f"{api.host}/32"]},
        "tools.imageGen": {"model": {"name": "paints/well", "baseURL": api.base_url}, "size": "64x64"},
        "tools.mixtureOfAgents": {"referenceModels": [model], "aggregator": model},
        "tools.browser": {},
    }
    needed = dict.fromkeys(field for name in WORKING for field in NEEDS.get(name, ()))
    # Dropped are those alone that this version does not have.
    return {"onUnavailable": "Drop"} | {field.removeprefix("tools."): fields[field] for field in needed}


def drawn(odds: Mapping[str, int], available: Collection[str], run_name: str, key: str) -> list[str]:
    """The toolsets of one prompt."""
    chances = {name: percent for name, percent in odds.items() if name in available and percent > 0}

    def is_drawn(name: str) -> bool:
        digest = hashlib.sha256(f"{run_name}\x1f{key}\x1f{name}".encode()).hexdigest()
        return int(digest[:16], 16) * 100 < chances[name] * 2**64

    chosen = [name for name in chances if is_drawn(name)]
    return chosen or [name for name, chance in chances.items() if chance == max(chances.values())][:1]


def judge(rows: Sequence[dict[str, Any]], run_name: str, odds: Mapping[str, int], available: Collection[str]) -> None:
    """Each row's toolsets are its draw, their tools were offered, and every built-in tool has its figures."""
    for row in rows:
        expected = drawn(odds, available, run_name, row["key"])
        assert row["toolsets_used"] == expected, row["id"]
        offered = {schema["function"]["name"] for schema in json.loads(row["tools"])}
        assert offered == {tool for name in expected for tool in TOOLSETS[name]}
        assert list(row["tool_stats"]) == list(row["tool_error_counts"]) == list(ALL_TOOLS)
        called = {tool for tool, stats in row["tool_stats"].items() if stats["count"]}
        assert called <= offered
        assert row["partial"] is False
    sets = {tuple(row["toolsets_used"]) for row in rows}
    is_sure = all(odds[name] in (0, 100) for name in odds if name in available)
    assert (len(sets) == 1) == (is_sure or len(set(odds) & set(available)) == 1), sets
