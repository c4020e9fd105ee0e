"""Where an export reads and writes, and what it says when it cannot: no half-written file, no foreign file lost."""

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.data.support import Run, reference_rows
from tests.unit.export.support import lines, rich

from batchrun_runner.export.command import run_export
from batchrun_runner.export.options import ExportOptions, Format, Reasoning

OPENAI = ExportOptions(Format.OPENAI)
BATCHRUN = Path(sys.executable).with_name("batchrun")


@pytest.fixture
def result(run: Run, folder: Path) -> Path:
    run.agent = rich
    run.run(["a", "b"])
    return folder


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if "openai" in path.name or path.suffix == ".part"}


def said(capsys: pytest.CaptureFixture[str]) -> str:
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err.strip()


def test_a_folder_a_file_and_a_named_output(result: Path, tmp_path: Path) -> None:
    assert run_export(result, OPENAI) == 0
    out = tmp_path / "mine.jsonl"
    assert run_export(result / "batch_0.jsonl", ExportOptions(Format.OPENAI, str(out))) == 0
    assert lines(out) == lines(result / "trajectories.openai.jsonl")


def test_its_own_file_is_replaced_and_a_foreign_one_only_when_asked(
    result: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = result / "trajectories.openai.jsonl"
    assert run_export(result, OPENAI) == run_export(result, ExportOptions(Format.OPENAI, reasoning=Reasoning.DROP)) == 0
    assert "reasoning_content" not in target.read_text()
    capsys.readouterr()
    for foreign in ('{"messages": []}\n', "notes\n", (result / "trajectories.jsonl").read_text()):
        target.write_text(foreign)
        assert run_export(result, OPENAI) == 2
        assert "was not written by this export" in said(capsys)
        assert target.read_text() == foreign
    assert run_export(result, ExportOptions(Format.OPENAI, overwrite=True)) == 0
    assert len(lines(target)) == 2


def test_a_result_of_the_reference_is_foreign_although_it_has_the_same_form(
    result: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (result / "trajectories.hermes.jsonl").write_text(reference_rows(["p"]))
    capsys.readouterr()
    assert run_export(result, ExportOptions(Format.HERMES)) == 2
    assert "was not written by this export" in said(capsys)


def test_what_is_read_is_never_written(result: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = result / "trajectories.jsonl"
    before = source.read_bytes()
    link = tmp_path / "link.jsonl"
    link.symlink_to(source)
    for output in (source, link):
        assert run_export(result, ExportOptions(Format.HERMES, str(output), overwrite=True)) == 2
        assert "is what is read" in said(capsys)
    assert source.read_bytes() == before


def test_parquet_replaces_its_own_file_and_no_other(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parquet = ExportOptions(Format.PARQUET)
    assert run_export(result, parquet) == run_export(result, parquet) == 0
    capsys.readouterr()
    (result / "trajectories.parquet").write_text("mine")
    assert run_export(result, parquet) == 2
    assert "was not written by this export" in said(capsys)


BAD_LINES: list[tuple[str, str]] = [
    ('{"prompt_index":1,"conv', ":2: is not JSON, and the file ends in the middle of it"),
    ("no json\n", ":2: is not JSON ("),
    ("[1]\n", ":2: is no trajectory, for it has no conversations"),
    ('{"prompt": "a data set"}\n', ":2: is no trajectory, for it has no conversations"),
    ('{"conversations": [], "api_calls": "many"}\n', ":2: is no trajectory: "),
    ('{"conversations": [], "tools": "{{"}\n', "line 2: tools or arguments of a call are damaged"),
]


@pytest.mark.parametrize(("line", "says"), BAD_LINES)
@pytest.mark.parametrize("form", [Format.OPENAI, Format.HERMES])
def test_a_damaged_line_is_named_and_the_old_export_stays(
    result: Path, line: str, says: str, form: Format, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ExportOptions(form)
    assert run_export(result, options) == 0
    target = result / f"trajectories.{form}.jsonl"
    before = target.read_bytes()
    capsys.readouterr()
    source = result / "trajectories.jsonl"
    source.write_text(source.read_text().split("\n")[0] + "\n" + line)
    assert run_export(result, options) == 2
    assert says in said(capsys)
    assert target.read_bytes() == before
    assert not list(result.glob(".*.part"))


BAD_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"format": Format.PARQUET, "output": "-"}, "--output -: Parquet cannot be streamed"),
    ({"format": Format.PARQUET, "reasoning": Reasoning.DROP}, "--reasoning: Parquet holds the rows as they are"),
    ({"format": Format.HERMES, "reasoning": Reasoning.FIELD}, "--reasoning field: a ShareGPT turn has no such field"),
    ({"format": Format.HERMES, "tools_as_json": True}, "are for --format openai"),
    ({"format": Format.OPENAI, "output": "/dev/null"}, "/dev/null: is no file that could be replaced"),
    ({"format": Format.OPENAI, "output": "."}, ".: is a folder; name a file"),
    ({"format": Format.OPENAI, "output": "/nowhere/x.jsonl"}, "/nowhere: does not exist"),
]


@pytest.mark.parametrize(("options", "says"), BAD_OPTIONS)
def test_options_that_cannot_be_are_refused_in_one_line(
    result: Path, options: dict[str, Any], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert run_export(result, ExportOptions(**options)) == 2
    assert says in said(capsys)


def test_a_missing_folder_or_result_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_export(tmp_path / "none", OPENAI) == 2
    assert said(capsys) == f"{tmp_path}/none: does not exist"
    assert run_export(tmp_path, OPENAI) == 2
    assert said(capsys).startswith(f"{tmp_path}: holds no trajectories.jsonl")
    assert run_export(Path("s3://bucket/x"), OPENAI) == 2
    assert "copy it to this machine first" in said(capsys)


def test_without_pyarrow_the_fix_is_named(
    result: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    capsys.readouterr()
    assert run_export(result, ExportOptions(Format.PARQUET)) == 2
    assert "pip install 'batchrun[export]'" in said(capsys)


def command(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BATCHRUN), "export", *arguments], text=True, capture_output=True, timeout=60, check=False, **more
    )


def test_a_full_disk_leaves_nothing_behind(result: Path) -> None:
    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    done = command(str(result), "--format", "openai", preexec_fn=little_room)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{result}/trajectories.openai.jsonl: cannot be written: ")
    assert done.stderr.count("\n") == 1
    assert names(result) == set()
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [str(BATCHRUN), "export", str(result), "--format", "openai", "--output", "-"],
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (2, "standard output: cannot be written: No space left on device\n")


def test_rows_go_to_standard_output_and_nothing_else_does(result: Path) -> None:
    done = command(str(result), "--format", "hermes", "--output", "-")
    assert (done.returncode, done.stderr) == (0, "")
    assert [json.loads(line)["prompt_index"] for line in done.stdout.splitlines()] == [0, 1]
    assert names(result) == set()
