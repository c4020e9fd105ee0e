"""The house itself: folders, module names, layers."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [ROOT / "api", ROOT / "operator", ROOT / "runner", ROOT / "cli"]
# A top-level module of one of these names hides the standard library's as soon as its folder is on the path.
SHADOWING = {"statistics", "types", "queue", "json", "logging", "select", "operator"}


def test_no_operator_folder_is_a_package() -> None:
    folders = [folder for folder in ROOT.rglob("operator") if ".venv" not in folder.parts and folder.is_dir()]

    assert folders, "the operator's folder is gone; this test looks at nothing"
    assert [folder for folder in folders if (folder / "__init__.py").exists()] == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_no_module_shadows_the_standard_library(source: Path) -> None:
    modules = {path.stem for path in source.rglob("*.py")} | {path.name for path in source.rglob("*") if path.is_dir()}

    assert modules & SHADOWING == set()


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_files_stay_readable(source: Path) -> None:
    long_files = {str(path): lines for path in source.rglob("*.py") if (lines := path.read_text().count("\n")) > 300}

    assert long_files == {}


@pytest.mark.parametrize(
    ("library", "door"),
    [
        ("kubernetes", "batchrun_operator/kube"),
        ("boto3", "batchrun_runner/storage"),
        ("openai", "batchrun_runner/model"),
    ],
)
def test_each_foreign_library_has_one_door(library: str, door: str) -> None:
    importers = [
        path
        for source in SOURCES
        for path in source.rglob("*.py")
        if any(
            line.strip().startswith((f"import {library}", f"from {library} ", f"from {library}."))
            for line in path.read_text().splitlines()
        )
    ]

    assert importers, f"nothing imports {library}; this test looks at nothing"
    assert [str(path) for path in importers if door not in str(path)] == []


def test_the_standard_library_is_intact_from_the_root() -> None:
    import operator

    assert operator.__file__
    assert Path(operator.__file__).parent == Path(sys.modules["os"].__file__ or "").parent
