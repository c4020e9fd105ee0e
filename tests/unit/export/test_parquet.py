"""`--format parquet`: every column typed and as it was, in row groups of bounded size."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.unit.data.support import Run, answered
from tests.unit.export.support import load, rich

from batchrun_runner.export.command import run_export
from batchrun_runner.export.options import ExportOptions, Format
from batchrun_runner.export.parquet import SCHEMA

PARQUET = ExportOptions(Format.PARQUET)


def test_rows_come_back_as_they_were_with_declared_types(run: Run, folder: Path, tmp_path: Path) -> None:
    run.agent = lambda row: rich(row) if row.index else answered(row)
    run.run(["a", "b", {"prompt": "c", "big": 2**70}])
    assert run_export(folder, PARQUET) == 0
    file = folder / "trajectories.parquet"
    assert pq.read_schema(file).equals(SCHEMA)
    assert pq.read_table(file).to_pylist() == run.rows()
    assert list(load("parquet", file, tmp_path / "cache")) == run.rows()


def test_an_empty_result_has_its_columns(run: Run, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "trajectories.jsonl").touch()
    assert run_export(folder, PARQUET) == 0
    table = pq.read_table(folder / "trajectories.parquet")
    assert (table.num_rows, table.schema.equals(SCHEMA)) == (0, True)


def test_row_groups_are_bounded_by_rows_and_by_bytes(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run.run([f"{number} " + "x" * 3000 * (number == 3) for number in range(9)])

    def groups() -> list[int]:
        assert run_export(folder, PARQUET) == 0
        metadata = pq.ParquetFile(folder / "trajectories.parquet").metadata
        return [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]

    assert groups() == [9]
    monkeypatch.setattr("batchrun_runner.export.parquet.GROUP_ROWS", 4)
    assert groups() == [4, 4, 1]
    monkeypatch.setattr("batchrun_runner.export.parquet.GROUP_BYTES", len(run.store.get("batch_0.jsonl").body) - 1)
    assert max(groups()) < 4
    assert sum(groups()) == 9


def test_a_number_that_no_column_holds_is_named_by_its_lines(
    run: Run, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run.run(["a", "b"])
    text = (folder / "trajectories.jsonl").read_text().replace('"api_calls":2', f'"api_calls":{2**64 - 1}', 1)
    (folder / "trajectories.jsonl").write_text(text)
    assert run_export(folder, PARQUET) == 2
    error: Any = capsys.readouterr().err
    assert error.startswith(f"{folder}/trajectories.jsonl:1-2: a value does not fit its column")
    assert not (folder / "trajectories.parquet").exists()
