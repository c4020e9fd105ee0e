"""A folder of the reference (its batch files alone) is gone on from as if it were ours."""

from __future__ import annotations

import json

import pytest
from tests.cluster.harness.evidence import prompt_of, requests_by_prompt
from tests.cluster.harness.model import ModelServer
from tests.contract.local.support import Workplace
from tests.unit.data.support import reference_rows

from batchrun_runner.columns import row_problems


@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_a_run_of_the_reference_is_resumed_without_asking_for_what_it_did(
    place: Workplace, model: ModelServer, has_checkpoint: bool
) -> None:
    done, failed, new = ["  What is two and two?\n", "twice", "twice"], ["This one failed."], ["A new one."]
    place.result.mkdir(parents=True)
    (place.result / "batch_0.jsonl").write_text(reference_rows(done))
    (place.result / "batch_1.jsonl").write_text(reference_rows(failed, start=3, failed=True))
    if has_checkpoint:
        checkpoint = {"run_name": "here", "completed_prompts": [0, 1, 2], "batch_stats": {"0": {"processed": 3}}}
        (place.result / "checkpoint.json").write_text(json.dumps(checkpoint))
    # On top of the data set, where the reference would skip it by its number.
    prompts = [*new, *(text.strip() for text in done), *failed]
    place.prompts([{"prompt": prompt} for prompt in prompts])
    place.spec(model={"name": "demo/scripted", "baseURL": model.base_url})
    old_files = {name: (place.result / name).read_bytes() for name in ("batch_0.jsonl", "batch_1.jsonl")}

    ended = place.run("--sandbox", "process")

    assert (ended.returncode, ended.stderr) == (0, "")
    assert "3 done" in ended.stdout
    assert set(requests_by_prompt(model.bodies)) == {*new, *failed}
    rows = place.rows()
    assert [(row["prompt_index"], prompt_of(row).strip()) for row in rows] == list(enumerate(prompts))
    assert [problem for row in rows for problem in row_problems(row)] == []
    assert all(row["completed"] and row["key"] for row in rows)
    assert json.loads((place.result / "checkpoint.json").read_text())["completed_prompts"] == [0, 1, 2, 3, 4]
    assert {name: (place.result / name).read_bytes() for name in old_files} == old_files
