"""Distributions in whole local runs: those of a ConfigMap, and toolsets that do not work and are dropped.

What holds for each of the built-in ones is in test_every_distribution.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import datasets
import pytest
import yaml
from tests.cluster.harness import draws
from tests.cluster.harness.web import Site
from tests.contract.local.support import Workplace

from batchrun_api.toolsets import DISTRIBUTIONS

PROMPTS = 200
AVAILABLE = ("web", "terminal", "file")
OWN = {"file": 40, "web": 40, "terminal": 20, "browser": 90}
"""A tie, not in the table's order, and the most probable one is dropped."""
IN_ORDER = {"web": 40, "terminal": 20, "file": 40, "browser": 90}
REFERENCE = {"configMapKeyRef": {"name": "ours", "key": "own"}}


def run_of(folder: Path, name: str, distribution: Any, site: Site, **settings: Any) -> Workplace:
    place = Workplace(folder, name)
    place.prompts({"id": str(number), "prompt": f"Prompt {number} of the table."} for number in range(PROMPTS))
    web = {"search": {"provider": "SearXNG", "baseURL": site.url}}
    spec = {
        "runName": name,
        "distribution": distribution,
        "tools": {"onUnavailable": "Drop", "web": web},
        "batchSize": 50,
        "promptsPerPod": 10,
        "numWorkers": 2,
        "filters": {"requireReasoning": False},
    }
    place.spec(**spec | settings)
    with (folder / "run.yaml").open("a") as file:
        config_map = {"kind": "ConfigMap", "metadata": {"name": "ours"}, "data": {"own": yaml.safe_dump(OWN)}}
        file.write("\n---\n" + yaml.safe_dump(config_map))
    return place


def test_each_row_has_its_seeded_draw_and_all_results_load_as_one_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_OFFLINE", True)
    datasets.disable_progress_bars()
    chosen = {"science": DISTRIBUTIONS["science"], "own": IN_ORDER}
    loaded = []
    with Site("127.0.0.1") as site:
        for name, probabilities in chosen.items():
            place = run_of(tmp_path, name, REFERENCE if name == "own" else name, site)
            done = place.run("--sandbox", "process")
            assert (done.returncode, done.stderr) == (0, "")
            rows = place.rows()
            assert sorted(int(row["id"]) for row in rows) == list(range(PROMPTS))
            draws.judge(rows, name, probabilities, AVAILABLE)
            cache = str(tmp_path / "cache")
            loaded.append(datasets.load_dataset(str(place.result), split="train", cache_dir=cache))

    together = datasets.concatenate_datasets(loaded)
    assert len(together) == PROMPTS * len(chosen)
    assert {frozenset(toolsets) for toolsets in together["toolsets_used"]} >= {
        frozenset(AVAILABLE), frozenset({"web"}), frozenset({"terminal"}), frozenset({"file"})
    }  # fmt: skip
    assert place.statistics()["distribution"] == '{"browser":90,"file":40,"terminal":20,"web":40}'


def test_a_changed_distribution_of_a_config_map_is_another_configuration(tmp_path: Path) -> None:
    with Site("127.0.0.1") as site:
        place = run_of(tmp_path, "own", REFERENCE, site, maxSamples=2)
        assert place.run("--sandbox", "process").returncode == 0
        same = place.run("--sandbox", "process")
        file = tmp_path / "run.yaml"
        file.write_text(file.read_text().replace("browser: 90", "browser: 80"))
        changed = place.run("--sandbox", "process")

    assert same.returncode == 0
    assert changed.returncode == 2
    before, after = '{"browser":90,"file":40,"terminal":20,"web":40}', '{"browser":80,"file":40,"terminal":20,"web":40}'
    assert f"changed: distribution (was {before}, now {after})" in changed.stderr
    assert "(ConfigChanged)" in changed.stderr


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({}, "spec.distribution.configMapKeyRef: there is no ConfigMap ours with the key own in this file; add the"),
        ({"own": "terminal"}, "data.own: is no mapping; write toolsets and their probabilities in percent"),
        ({"own": "{shell: 5}"}, "data.own: there is no toolset 'shell'; there are web, vision"),
        ({"own": "{browser: 5}"}, "spec.distribution: none of its toolsets works: browser"),
    ],
)
def test_what_cannot_be_used_is_refused_by_place_and_fix_before_anything_runs(
    place: Workplace, data: dict[str, str], words: str
) -> None:
    place.prompts([{"prompt": "hello"}])
    place.spec(distribution=REFERENCE)
    with (place.folder / "run.yaml").open("a") as file:
        file.write("\n---\n" + yaml.safe_dump({"kind": "ConfigMap", "metadata": {"name": "ours"}, "data": data}))
    done = place.run("--sandbox", "process")

    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.startswith("run.yaml:")
    assert not place.result.exists()
