"""Each row of the mission's tables has a test on one machine and one in a cluster, and each of them exists."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conftest import COLLECTED

from batchrun_api.crd import custom_resource_definition
from batchrun_api.toolsets import ALL_TOOLS, TOOLSETS, WORKING_TOOLSETS

ROOT = Path(__file__).resolve().parents[2]
TABLES: dict[str, Any] = yaml.safe_load((ROOT / "tests" / "mission.yaml").read_text())
del TABLES["ids"]
WORKING_TOOLS = [tool for tool in ALL_TOOLS if any(tool in TOOLSETS[toolset] for toolset in WORKING_TOOLSETS)]


@dataclass(frozen=True)
class Row:
    """One row of a table: the ids of its tests, and the field of `spec` where it has one."""

    name: str
    local: list[str]
    cluster: list[str]
    field: str


def rows() -> Iterator[Row]:
    for table, content in TABLES.items():
        for name, row in content.items():
            yield Row(f"{table}: {name}", row.get("local", []), row.get("cluster", []), row.get("field", ""))


ROWS = list(rows())


@pytest.fixture(scope="module")
def collected(pytestconfig: pytest.Config) -> frozenset[str]:
    """Ids of all tests there are, without their parameters."""
    if [ROOT / argument for argument in pytestconfig.args] == [ROOT / "tests"]:
        return pytestconfig.stash[COLLECTED]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    return frozenset(line.partition("[")[0] for line in done.stdout.splitlines() if "::" in line)


def test_no_table_of_the_mission_is_missing() -> None:
    sizes = {table: len(content) for table, content in TABLES.items()}
    assert sizes == {
        "data set row": 7,
        "parameters": 22,
        "output": 6,
        "checkpoint and resume": 7,
        "quality filters": 4,
        "statistics": 3,
        "uses": 6,
        "tools": len(WORKING_TOOLS),
    }


def test_each_tool_that_works_is_called_in_real_runs() -> None:
    assert list(TABLES["tools"]) == WORKING_TOOLS


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_of_the_mission_is_tested_on_one_machine_and_in_a_cluster(row: Row, collected: frozenset[str]) -> None:
    assert row.local
    assert row.cluster
    assert [test for test in (*row.local, *row.cluster) if test not in collected] == []
    assert all(test.startswith("tests/cluster/") for test in row.cluster)
    assert not any(test.startswith("tests/cluster/") for test in row.local)


@pytest.mark.parametrize("row", [row for row in ROWS if row.field], ids=lambda row: row.name)
def test_a_parameter_is_a_field_of_the_resource(row: Row) -> None:
    node = custom_resource_definition()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for step in row.field.split("."):
        node = node["properties"][step]
