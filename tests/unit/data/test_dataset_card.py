"""The result loads with the real library, typed, also where inference would get it wrong."""

import json
from pathlib import Path
from typing import Any

import datasets
import pytest
from tests.unit.data.support import Run, answered

from batchrun_runner.columns import NULLABLE_FLOAT, ROW_FEATURES, Feature, row_problems
from batchrun_runner.merge.dataset_card import dataset_card


@pytest.fixture(autouse=True)
def quiet_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_OFFLINE", True)
    datasets.disable_progress_bars()


def load(folder: Path, cache: Path) -> Any:
    return datasets.load_dataset(str(folder), split="train", cache_dir=str(cache))


def library_feature(feature: Feature) -> Any:
    if isinstance(feature, str):
        return datasets.Value("float64" if feature == NULLABLE_FLOAT else feature)
    if isinstance(feature, list):
        return datasets.List(library_feature(feature[0]))
    return {name: library_feature(item) for name, item in feature.items()}


EXPECTED = datasets.Features(library_feature(ROW_FEATURES))


def test_f01_thirty_thousand_rows_without_a_call_before_the_first_with_one_load(run: Run, tmp_path: Path) -> None:
    run.run(["p"])
    (row,) = run.rows()
    quiet = dict(row, conversations=[{"from": "human", "value": "x" * 600, "tool_calls": []}])
    folder = tmp_path / "many"
    folder.mkdir()
    line = json.dumps(quiet, separators=(",", ":")) + "\n"
    with (folder / "trajectories.jsonl").open("w") as file:
        file.writelines([line] * 30_000)
        file.write(json.dumps(dict(row, reward=0.5)) + "\n")
    (folder / "README.md").write_text(dataset_card("first_run", "m"))
    loaded = load(folder, tmp_path / "cache")
    assert loaded.features == EXPECTED
    assert len(loaded) == 30_001
    last = loaded[-1]
    assert last["conversations"] == row["conversations"]
    assert (last["reward"], loaded[0]["reward"]) == (0.5, None)


def test_f02_f03_a_merged_folder_loads_with_every_column_as_it_was_written(run: Run, tmp_path: Path) -> None:
    run.agent = lambda row: answered(row, reasoning=row.index != 1, call="terminal" if row.index else "made_up")
    run.spec = {"filters": {"requireReasoning": False, "unknownTools": "Keep"}}
    run.run([{"prompt": "a", "big": 2**70}, {"prompt": "b", "id": "1"}, "c"])
    loaded = load(tmp_path / "first_run", tmp_path / "cache")
    assert loaded.features == EXPECTED
    assert list(loaded) == run.rows()
    assert json.loads(loaded[0]["extra"]) == {"big": 2**70}


def test_the_card_says_the_same_at_every_merge_and_names_the_run() -> None:
    assert dataset_card("first_run", "m") == dataset_card("first_run", "m")
    assert "# first_run" in dataset_card("first_run", "m")
    assert "{" not in dataset_card("r", "m").split("---")[2].replace('["', "")


def test_rows_are_checked_for_keys_order_and_types(run: Run) -> None:
    run.run(["p"])
    (row,) = run.rows()
    assert row_problems(row) == []
    assert row_problems(dict(reversed(row.items())))
    assert row_problems(row | {"completed": 1}) == ["row.completed is int, not bool"]
    assert row_problems(row | {"api_calls": True}) == ["row.api_calls is bool, not int64"]
    assert row_problems(row | {"toolsets_used": [1]}) == ["row.toolsets_used[0] is int, not string"]
    assert row_problems(row | {"reason": None}) == ["row.reason is NoneType, not string"]
