"""`batchrun local` in a folder of the test alone, as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.harness.runs import jsonl

BATCHRUN = Path(sys.executable).with_name("batchrun")
_PASSED_ON = ("PATH", "HOME", "XDG_CACHE_HOME", "GOCACHE", "GOFLAGS", "GOPROXY", "GOTOOLCHAIN")


def environment(**more: str) -> dict[str, str]:
    """What a user's shell has that matters here; no key of any model."""
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | {"LANG": "C.UTF-8"} | more


@dataclass(frozen=True)
class Workplace:
    """The file run.yaml, its data set prompts.jsonl, and the output folder out, with the results of `run_name`."""

    folder: Path
    run_name: str = "here"

    @property
    def result(self) -> Path:
        """Where the results of the run lie."""
        return self.folder / "out" / self.run_name

    def prompts(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write the data set."""
        (self.folder / "prompts.jsonl").write_text(jsonl(rows))

    def spec(self, **spec: Any) -> None:
        """Write run.yaml; `spec` is laid over one that works with the demo model in the process."""
        base = {
            "dataset": {"uri": "file://prompts.jsonl"},
            "batchSize": 3,
            "numWorkers": 2,
            "distribution": {"terminal": 100, "file": 100},
            "model": {"name": "demo/scripted"},
        }
        document = {
            "apiVersion": "batchrun.dev/v1alpha1",
            "kind": "BatchRun",
            "metadata": {"name": "here"},
            "spec": base | spec,
        }
        (self.folder / "run.yaml").write_text(json.dumps(document, indent=1))

    def command(self, *options: str) -> list[str]:
        """The command line."""
        return [str(BATCHRUN), "local", "run.yaml", "--output", "out", *options]

    def start(self, *options: str, environ: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """Start it; its output goes to pipes."""
        return subprocess.Popen(
            self.command(*options),
            cwd=self.folder,
            env=environ or environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *options: str, environ: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run it to its end."""
        return subprocess.run(
            self.command(*options),
            cwd=self.folder,
            env=environ or environment(),
            capture_output=True,
            text=True,
            timeout=280,
            check=False,
        )

    def rows(self) -> list[dict[str, Any]]:
        """The merged result."""
        return [json.loads(line) for line in (self.result / "trajectories.jsonl").read_text().splitlines()]

    def statistics(self) -> dict[str, Any]:
        """statistics.json."""
        return dict(json.loads((self.result / "statistics.json").read_text()))

    def objects(self) -> dict[str, bytes]:
        """Everything below the run's folder, by its key."""
        files = [path for path in self.result.rglob("*") if path.is_file()]
        return {path.relative_to(self.result).as_posix(): path.read_bytes() for path in files}
