"""The files in examples/ as the mission's uses: what people run, with the places changed that a test must change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[3] / "examples"
FIRST, RESUME, TRAINING, EVALUATION, IMAGES = (
    f"{name}.yaml" for name in ("1-first-run", "2-resume", "4-training-data", "5-evaluation", "6-image-per-prompt")
)


def example(file: str, base_url: str) -> dict[str, Any]:
    """The BatchRun of a file, at another model server."""
    document: dict[str, Any] = yaml.safe_load((FOLDER / file).read_text())
    document["spec"].setdefault("model", {})["baseURL"] = base_url
    return document


def rows(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of an example's data set."""
    dataset = document["spec"]["dataset"]
    text = dataset.get("inline") or (FOLDER / dataset["uri"].removeprefix("file://")).read_text()
    return [json.loads(line) for line in text.splitlines() if line.strip()]
