"""llama.cpp's real server with a tiny random model: built by `make engine`, one server for all tests."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.harness.kubectl import wait_for

LOCK = Path(__file__).parents[2] / "requirements" / "engine.lock"


def engine_python() -> Path:
    """The engine's Python; skips, or fails in CI, where it is not built."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "batchrun"
    folder = cache / f"engine-{hashlib.sha256(LOCK.read_bytes()).hexdigest()}"
    if not (folder / ".made").exists():
        why = "llama.cpp's server is not built: make engine"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    return folder / "bin" / "python"


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Base URL of the server."""
    python = engine_python()
    folder = tmp_path_factory.mktemp("engine")
    model, log = folder / "tiny.gguf", folder / "server.log"
    subprocess.run([python, Path(__file__).with_name("tiny_model.py"), model], check=True, timeout=60)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = ["--host", "127.0.0.1", "--port", str(port)]
    command = [
        str(python),
        "-m",
        "llama_cpp.server",
        "--model",
        str(model),
        *address,
        "--n_ctx",
        "2048",
        "--n_threads",
        "2",
    ]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as server:
        try:
            url = f"http://127.0.0.1:{port}/v1"
            wait_for("the engine serves", lambda: _answers(f"{url}/models") or server.poll() is not None, 60)
            assert server.poll() is None, log.read_text()[-2000:]
            yield url
        finally:
            server.kill()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return int(response.status) == 200
    except OSError:
        return False
