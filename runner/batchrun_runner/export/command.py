"""The verb: a result in, one file in another form out."""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import orjson

from batchrun_runner.export.chat import METADATA, chat_row
from batchrun_runner.export.errors import ExportFailed
from batchrun_runner.export.hermes import KEPT, OURS, hermes_row
from batchrun_runner.export.options import ExportOptions, Format, Reasoning
from batchrun_runner.export.reading import SourceRow, read_rows, rows_file
from batchrun_runner.export.writing import check_target, replacing
from batchrun_runner.model.clean import dumps
from batchrun_runner.standard_output import send_nowhere

STDOUT = "-"
Encode = Callable[[dict[str, Any]], dict[str, Any]]


def run_export(path: Path, options: ExportOptions) -> int:
    """Export; returns the exit code: 0, or 2 after one line on what is to be mended."""
    tally = _Tally()
    try:
        _check(options)
        source = rows_file(path)
        if options.output == STDOUT:
            return _to_stdout(source, options, tally)
        target = Path(options.output) if options.output else source.with_name(_default_name(source, options.format))
        _to_file(source, target, options, tally)
    except ExportFailed as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except OSError as error:  # a folder that we may not look into, for instance
        sys.stderr.write(f"{error.filename or path}: {error.strerror or error}\n")
        return 2
    left = f", {tally.left_out:,} left out for they are not completed" if tally.left_out else ""
    sys.stdout.write(f"{target}: {tally.written:,} rows{left}\n")
    return 0


@dataclass(slots=True)
class _Tally:
    written: int = 0
    left_out: int = 0


def _check(options: ExportOptions) -> None:
    parquet = options.format is Format.PARQUET
    if parquet and options.output == STDOUT:
        raise ExportFailed("--output -: Parquet cannot be streamed to standard output; name a file")
    if parquet and options.reasoning is not None:
        raise ExportFailed("--reasoning: Parquet holds the rows as they are; use it with openai or hermes")
    if options.format is Format.HERMES and options.reasoning is Reasoning.FIELD:
        raise ExportFailed("--reasoning field: a ShareGPT turn has no such field; use tags or drop with hermes")
    if options.format is not Format.OPENAI and (options.tools_as_json or not options.metadata):
        raise ExportFailed("--tools and --no-metadata are for --format openai")
    if parquet:
        try:
            import pyarrow  # noqa: F401, PLC0415
        except ImportError as error:
            raise ExportFailed("--format parquet needs pyarrow: pip install 'batchrun[export]'") from error


def _default_name(source: Path, kind: Format) -> str:
    return f"{source.stem}.parquet" if kind is Format.PARQUET else f"{source.stem}.{kind}.jsonl"


def _chosen(source: Path, options: ExportOptions, tally: _Tally) -> Iterator[SourceRow]:
    for row in read_rows(source):
        if options.completed_only and not row.row["completed"]:
            tally.left_out += 1
            continue
        tally.written += 1
        yield row


def _encoder(options: ExportOptions) -> Encode:
    if options.format is Format.HERMES:
        return partial(hermes_row, with_reasoning=options.reasoning is not Reasoning.DROP)
    return partial(
        chat_row,
        reasoning=options.reasoning or Reasoning.FIELD,
        tools_as_json=options.tools_as_json,
        metadata=options.metadata,
    )


def _to_stdout(source: Path, options: ExportOptions, tally: _Tally) -> int:
    try:
        _write_lines(sys.stdout.buffer, _encoder(options), _chosen(source, options, tally))
        return 0
    except OSError as error:
        # Python must not stumble over the rest at its end. A reader that has seen enough (`| head`) is no error.
        send_nowhere(sys.stdout)
        if isinstance(error, BrokenPipeError):
            return 0
        raise ExportFailed(f"standard output: cannot be written: {error.strerror or error}") from error


def _to_file(source: Path, target: Path, options: ExportOptions, tally: _Tally) -> None:
    rows = _chosen(source, options, tally)
    if options.format is Format.PARQUET:
        from batchrun_runner.export.parquet import is_ours, write_parquet  # noqa: PLC0415

        check_target(target, source, is_ours, overwrite=options.overwrite)
        with replacing(target) as part:
            write_parquet(part, source, rows)
        return
    check_target(target, source, partial(_is_ours, options.format), overwrite=options.overwrite)
    with replacing(target) as part, part.open("wb") as file:
        _write_lines(file, _encoder(options), rows)


def _write_lines(file: IO[bytes], encode: Encode, rows: Iterable[SourceRow]) -> None:
    for item in rows:
        try:
            file.write(dumps(encode(item.row)) + b"\n")
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ExportFailed(f"line {item.line}: tools or arguments of a call are damaged: {error}") from error
    file.flush()


_KEYS = {
    Format.OPENAI: ("messages", "tools", *METADATA, "model"),
    Format.HERMES: ("prompt_index", "conversations", *KEPT, *OURS),
}


def _is_ours(kind: Format, file: Path) -> bool:
    """Whether an earlier export wrote this file: its first line has the very keys of one."""
    try:
        with file.open("rb") as lines:
            first = orjson.loads(lines.readline())
    except (ValueError, OSError):
        return False
    return isinstance(first, dict) and tuple(first) == _KEYS[kind]
