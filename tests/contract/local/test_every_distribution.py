"""200 prompts on each built-in distribution: every row has its seeded draw, and all results are one data set."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import datasets
import pytest
from tests.cluster.harness import draws
from tests.cluster.harness.images_api import ImagesAPI
from tests.cluster.harness.model import ModelServer
from tests.cluster.harness.talk import calls_prompt
from tests.cluster.harness.web import Site
from tests.contract.local.support import Workplace

from batchrun_api.toolsets import ALL_TOOLS, DISTRIBUTIONS

PROMPTS = 200
POSSIBLE = {name: odds for name, odds in DISTRIBUTIONS.items() if set(odds) & set(draws.WORKING)}
"""Those of which something can be drawn in this version: all, once every toolset works."""


@pytest.fixture(scope="module")
def tools() -> Iterator[dict[str, Any]]:
    """`spec.tools` for all toolsets, with their servers running."""
    with Site("127.0.0.1") as site, ImagesAPI("127.0.0.1") as api, ModelServer("127.0.0.1") as second:
        yield draws.settings(site, api, second)


def run_of(folder: Path, name: str, tools: dict[str, Any]) -> Workplace:
    """Every tenth prompt works with what it was offered; the others answer at once, for their draw."""
    (folder / name).mkdir()
    place = Workplace(folder / name, name)
    texts = [f"Prompt {number}." for number in range(PROMPTS)]
    prompts = [text if number % 10 == 0 else calls_prompt(text) for number, text in enumerate(texts)]
    place.prompts({"id": str(number), "prompt": prompt} for number, prompt in enumerate(prompts))
    place.spec(runName=name, distribution=name, tools=tools, batchSize=50, promptsPerPod=10)
    return place


@pytest.mark.timeout(600)
def test_each_row_of_every_distribution_has_its_draw_and_all_results_load_as_one_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tools: dict[str, Any]
) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_OFFLINE", True)
    datasets.disable_progress_bars()
    places = {name: run_of(tmp_path, name, tools) for name in POSSIBLE}
    with ThreadPoolExecutor(2) as pool:
        ended = dict(
            zip(places, pool.map(lambda place: place.run("--sandbox", "process"), places.values()), strict=True)
        )

    for name, place in places.items():
        assert (ended[name].returncode, ended[name].stderr) == (0, ""), name
        rows = place.rows()
        assert [int(row["id"]) for row in rows] == list(range(PROMPTS))
        draws.judge(rows, name, DISTRIBUTIONS[name], draws.WORKING)

    cache = str(tmp_path / "cache")
    loaded = [datasets.load_dataset(str(place.result), split="train", cache_dir=cache) for place in places.values()]
    together = datasets.concatenate_datasets(loaded)
    assert len(together) == PROMPTS * len(POSSIBLE)
    used = {name for toolsets in together["toolsets_used"] for name in toolsets}
    assert used == set(draws.WORKING)
    assert all(list(stats) == list(ALL_TOOLS) for stats in together["tool_stats"])


@pytest.mark.parametrize("name", [name for name in DISTRIBUTIONS if name not in POSSIBLE] or ["no-such-distribution"])
def test_a_distribution_of_which_nothing_can_be_drawn_is_refused(place: Workplace, name: str) -> None:
    place.prompts([{"prompt": "hello"}])
    place.spec(distribution=name, tools={"onUnavailable": "Drop"})
    done = place.run("--sandbox", "process")

    assert done.returncode == 2
    assert "spec.distribution: " in done.stderr
    assert not place.result.exists()
