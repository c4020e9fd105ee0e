"""A stage for whole runs against the faulty server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.harness.model import ModelServer
from tests.contract.local.support import Workplace
from tests.contract.model.support import Stage


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """The faulty server, in a thread of this process."""
    with ModelServer("127.0.0.1") as server:
        yield server


@pytest.fixture
def stage(
    tmp_path: Path,
    model: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> Stage:
    """An empty folder and the server."""
    for name in ("OPENAI_API_KEY", "OPENROUTER_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return Stage(Workplace(tmp_path), model, monkeypatch, capsys, caplog)
