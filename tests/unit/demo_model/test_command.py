"""`batchrun demo-model` as a process."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx2 as httpx
import pytest

from batchrun_runner.demo_model.command import serve_forever

START = (
    "import sys\nfrom batchrun_runner.demo_model.command import serve_forever\n"
    "sys.exit(serve_forever('127.0.0.1', 0, 0, None))"
)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_serves_and_ends_well_when_told_to(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", START], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert "scripted" in said
        url = re.search(r"http\S+", said)
        assert url is not None
        assert httpx.get(f"{url.group()}/models", trust_env=False).status_code == 200
        process.send_signal(number)
        assert process.wait(timeout=10) == 0


def test_a_bad_script_or_a_taken_port_is_bad_input(
    tmp_path: Path, unused_tcp_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.json").write_text("{")
    assert serve_forever("127.0.0.1", 0, 0, tmp_path / "bad.json") == 2
    assert "bad.json" in capsys.readouterr().err
    assert serve_forever("192.0.2.1", unused_tcp_port, 0, None) == 2
