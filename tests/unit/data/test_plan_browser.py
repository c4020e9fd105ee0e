"""Which batches of a plan have drawn the browser."""

from __future__ import annotations

from pathlib import Path

from batchrun_api.plan import PlannedBatch
from batchrun_runner.ledger.batching import BatchWriter, DataSetOrder, Indices


def test_a_batch_needs_a_browser_where_one_of_its_prompts_has_drawn_it(tmp_path: Path) -> None:
    with (tmp_path / "rows").open("wb") as rows:
        writer = BatchWriter(rows, 0)
        batching = DataSetOrder(writer, 2)
        for drawn in (False, True, False, False):
            batching.add(b'"prompt":"a"}\n', "", Indices(browser=drawn))
        batching.finish()

    assert [batch.browser for batch in writer.batches] == [True, False]
    assert PlannedBatch.model_validate({"number": 0, "offset": 0, "length": 1, "images": []}).browser is False
