"""What a command does not need is not loaded: it starts in the time that it takes to read this line."""

import subprocess
import sys
from pathlib import Path

import pytest

RUN = """
import sys
sys.argv = ["batchrun", *sys.argv[1:]]
from batchrun_runner.main import run
try:
    run()
except SystemExit as end:
    assert not end.code, end.code
sys.stderr.write(" ".join(sys.modules))
"""
FILE = """\
apiVersion: batchrun.dev/v1alpha1
kind: BatchRun
metadata: {name: here}
spec: {dataset: {inline: '{"prompt": "a"}'}, distribution: terminal_only, model: {name: demo/scripted}}
"""
CLIENTS = {"openai", "boto3", "botocore", "httpx", "httpx2", "kubernetes", "structlog"}


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (["distributions"], CLIENTS | {"yaml", "asyncio", "batchrun_api.spec"}),
        (["distributions", "-o", "json"], CLIENTS | {"rich", "yaml", "asyncio", "batchrun_api.spec"}),
        (["validate", "run.yaml", "--local"], CLIENTS | {"rich", "asyncio", "orjson"}),
        (
            ["local", "run.yaml"],
            (CLIENTS - {"openai", "httpx2", "httpx"}) | {"batchrun_runner.pod"},
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_loads_only_what_it_needs(tmp_path: Path, arguments: list[str], unwanted: set[str]) -> None:
    (tmp_path / "run.yaml").write_text(FILE)

    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=100
    )

    assert unwanted & set(done.stderr.split()) == set()
