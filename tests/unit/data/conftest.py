"""A run in a folder of its own."""

from pathlib import Path

import pytest
from tests.unit.data.support import Run

from batchrun_runner.storage.folder import FolderStore


@pytest.fixture
def folder(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "first_run", survives_power_cut=False)


@pytest.fixture
def run(folder: FolderStore, tmp_path: Path) -> Run:
    return Run(folder, tmp_path / "work")
