"""`parquet`: every column of a row, typed, in row groups of bounded size. Importing this imports pyarrow."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from batchrun_runner.columns import NULLABLE_FLOAT, ROW_FEATURES, Feature
from batchrun_runner.export.errors import ExportFailed
from batchrun_runner.export.reading import SourceRow

GROUP_ROWS = 1000
GROUP_BYTES = 16 * 1024 * 1024
"""Of JSON. What is in memory at a time is some times this; a single longer row passes alone."""
_MARK = {b"batchrun": b"trajectories"}
_TYPES = {
    "string": pa.string(),
    "int64": pa.int64(),
    "bool": pa.bool_(),
    "float64": pa.float64(),
    NULLABLE_FLOAT: pa.float64(),
}


def arrow_type(feature: Feature) -> Any:
    """A column's type."""
    if isinstance(feature, str):
        return _TYPES[feature]
    if isinstance(feature, list):
        return pa.list_(arrow_type(feature[0]))
    return pa.struct([pa.field(name, arrow_type(item)) for name, item in feature.items()])


SCHEMA = pa.schema([pa.field(name, arrow_type(item)) for name, item in ROW_FEATURES.items()], metadata=_MARK)


def is_ours(file: Path) -> bool:
    """Whether an earlier export wrote this file."""
    try:
        return (pq.read_schema(file).metadata or {}).get(b"batchrun") == _MARK[b"batchrun"]
    except (pa.ArrowException, OSError):
        return False


def write_parquet(path: Path, source: Path, rows: Iterable[SourceRow]) -> int:
    """Write all rows; returns how many. Raises OSError, and ExportFailed for a number that no column can hold."""
    written = 0
    with pq.ParquetWriter(path, SCHEMA, compression="zstd") as writer:
        group: list[SourceRow] = []
        size = 0
        for row in rows:
            if group and (len(group) >= GROUP_ROWS or size + row.size_bytes > GROUP_BYTES):
                written += _write_group(writer, source, group)
                group, size = [], 0
            group.append(row)
            size += row.size_bytes
        if group:
            written += _write_group(writer, source, group)
    return written


def _write_group(writer: Any, source: Path, group: list[SourceRow]) -> int:
    try:
        batch = pa.RecordBatch.from_pylist([item.row for item in group], schema=SCHEMA)
    except (pa.ArrowException, OverflowError) as error:
        lines = f"{group[0].line}-{group[-1].line}"
        raise ExportFailed(f"{source}:{lines}: a value does not fit its column: {error}") from error
    writer.write_batch(batch, row_group_size=len(group))
    return len(group)
