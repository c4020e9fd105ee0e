"""A folder to run in, and a demo model whose counters the test reads."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.harness.model import ModelServer
from tests.contract.local.support import Workplace


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    """An empty folder with a run.yaml that works."""
    workplace = Workplace(tmp_path)
    workplace.spec()
    return workplace


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """A demo model outside of the run's process."""
    with ModelServer("127.0.0.1") as server:
        yield server
