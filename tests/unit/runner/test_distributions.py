"""`batchrun distributions`: the same table for people and for programs."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from batchrun_api.toolsets import DISTRIBUTIONS, MEANT_FOR, TOOLSETS
from batchrun_runner.distributions import render


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_programs_get_every_distribution_in_the_order_that_decides_ties(
    output: str, read: Callable[[str], Any]
) -> None:
    table = read(render(output))

    assert list(table) == list(DISTRIBUTIONS)
    for name, entry in table.items():
        assert list(entry["probabilities"].items()) == list(DISTRIBUTIONS[name].items())
        assert entry["meantFor"] == MEANT_FOR[name]


def test_people_get_a_line_for_each_with_its_probabilities() -> None:
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in render("table").splitlines() if "│" in line]

    assert len(cells) == len(DISTRIBUTIONS)
    for (name, *percents, meant_for), distribution in zip(cells, DISTRIBUTIONS, strict=True):
        assert (name, meant_for) == (distribution, MEANT_FOR[distribution])
        assert percents == [str(DISTRIBUTIONS[name].get(toolset, "")) for toolset in TOOLSETS]
