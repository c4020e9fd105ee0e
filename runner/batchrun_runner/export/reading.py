"""The rows that are exported: of a result folder, or of any file of such rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from batchrun_runner.columns import ROW_FEATURES, in_todays_columns, row_problems
from batchrun_runner.export.errors import ExportFailed

TRAJECTORIES = "trajectories.jsonl"


@dataclass(frozen=True, slots=True)
class SourceRow:
    """One row in today's columns, and where it stands."""

    line: int
    """Counted from 1."""
    size_bytes: int
    row: dict[str, Any]


def rows_file(path: Path) -> Path:
    """The file that a user means: a file of rows, or `trajectories.jsonl` of a result folder. Raises ExportFailed."""
    file = path / TRAJECTORIES if path.is_dir() else path
    if file.is_file():
        return file
    if path.is_dir():
        raise ExportFailed(f"{path}: holds no {TRAJECTORIES}; name a folder with results, data/<runName> for instance")
    if path.exists():
        raise ExportFailed(f"{path}: is no file; name a {TRAJECTORIES}, or the folder that holds one")
    hint = "; copy it to this machine first" if str(path).startswith("s3:") else ""
    raise ExportFailed(f"{path}: does not exist{hint}")


def read_rows(file: Path) -> Iterator[SourceRow]:
    """All rows in their order, one in memory at a time. Raises ExportFailed with the line of what is no row."""
    number = 0
    try:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield SourceRow(number, len(line), _row(file, number, line))
    except OSError as error:
        raise ExportFailed(f"{file}: cannot be read after line {number}: {error.strerror}") from error


def _row(file: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        row: Any = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        torn = "" if line.endswith(b"\n") else ", and the file ends in the middle of it"
        raise ExportFailed(f"{file}:{number}: is not JSON{torn} ({error}); merge the run again") from error
    if not isinstance(row, dict) or not isinstance(row.get("conversations"), list):
        raise ExportFailed(f"{file}:{number}: is no trajectory, for it has no conversations; name a {TRAJECTORIES}")
    try:
        columns: dict[str, Any] = row if tuple(row) == tuple(ROW_FEATURES) else in_todays_columns(row)
    except (ValueError, TypeError, AttributeError) as error:
        raise ExportFailed(f"{file}:{number}: is no trajectory: {error}") from error
    if problems := row_problems(columns):
        raise ExportFailed(f"{file}:{number}: is no trajectory: {problems[0]}")
    return columns
