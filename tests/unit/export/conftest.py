"""A run in a folder of its own, with results that are exported."""

from pathlib import Path

import datasets
import pytest
from tests.unit.data.support import Run

from batchrun_runner.storage.folder import FolderStore


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(FolderStore(tmp_path / "first_run", survives_power_cut=False), tmp_path / "work")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the results of `run` lie."""
    return tmp_path / "first_run"


@pytest.fixture(autouse=True)
def quiet_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_OFFLINE", True)
    datasets.disable_progress_bars()
