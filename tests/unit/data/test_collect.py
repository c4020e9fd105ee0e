"""`collect` of a row: what is taken and refused, what it is part of, and the names under which artifacts are stored."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.data.support import Run, batch_rows, jsonl

from batchrun_runner.dataset.rows import InvalidRow, read_rows
from batchrun_runner.ledger.artifacts import ArtifactPlace, object_name
from batchrun_runner.records import Collect, PromptRow
from batchrun_runner.storage.folder import FolderStore

HOSTILE = [
    "a\nb", "a\\b", "a%2Fb", ".hidden", ".git/config", "..", "\x7f\x1b[2J", "\u202eabc", "täg/ü", " ", "-rf", "\ufffd",
    "a:b",
]  # fmt: skip


def read(*rows: dict[str, Any]) -> list[PromptRow | InvalidRow]:
    return list(read_rows([jsonl([{"prompt": "p", **row} for row in rows]).encode()]))


def valid(*rows: dict[str, Any]) -> list[PromptRow]:
    found = read(*rows)
    assert all(isinstance(row, PromptRow) for row in found), found
    return [row for row in found if isinstance(row, PromptRow)]


def test_a_full_setting_is_taken_and_paths_have_one_spelling() -> None:
    given = {
        "paths": ["./out//x", "a/", "//etc/x", "a"],
        "command": "git diff",
        "restore": "git apply",
        "timeoutSeconds": 9,
    }
    (row,) = valid({"collect": given})
    assert row.collect == Collect(("out/x", "a", "/etc/x"), "git diff", "git apply", 9)
    assert row.extra == "{}"


def test_it_reaches_the_batch_as_it_was_read(run: Run) -> None:
    row = {"prompt": "p", "collect": {"paths": ["out"], "command": "git diff"}, "verify": {"command": "true"}}
    outcome = run.plan([row])
    (stored,) = batch_rows(run.store, outcome.plan.plan_id, outcome.plan.batches[0])
    assert [stored] == valid(row)


def test_it_does_not_make_another_prompt() -> None:
    plain, collecting = valid({})[0], valid({"collect": {"paths": ["a"]}})[0]
    assert plain.key == collecting.key
    assert (plain.work, collecting.work) == ("", plain.key.removesuffix("-0"))


def test_the_work_is_the_key_without_the_verifier_and_counts_equal_works() -> None:
    collect = {"collect": {"paths": ["a"]}}
    verified = [{**collect, "verify": {"command": command}} for command in ("true", "false")]
    first, second = valid(*verified)
    assert first.key != second.key
    assert (first.work, second.work) == (f"{first.work[:24]}-0", f"{first.work[:24]}-1")
    (other,) = valid({**collect, "setup": "make", "verify": {"command": "true"}})
    assert other.work[:24] != first.work[:24]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], "`collect` is a list, not an object; write {"),
        ({}, "`collect` has neither `paths` nor `command`"),
        ({"paths": []}, "`collect` has neither `paths` nor `command`"),
        ({"path": "a"}, "`collect` has the key 'path', which it does not know; use paths, command"),
        ({"paths": "a"}, "`collect.paths` is a string, not a list; write ["),
        ({"paths": [1]}, "a path in `collect.paths` is a number, not a string"),
        ({"paths": [""]}, "`collect.paths` '' is no path"),
        ({"paths": ["a\0"]}, "a path in `collect.paths` holds the character U+0000"),
        ({"paths": ["a/../../etc"]}, "`collect.paths` 'a/../../etc' goes up by .."),
        ({"paths": ["/w/.."]}, "`collect.paths` '/w/..' goes up by .."),
        ({"paths": ["~/x"]}, "`collect.paths` '~/x' begins with ~"),
        ({"paths": ["x" * 1025]}, "`collect.paths` 'xxx"),
        ({"paths": [str(n) for n in range(101)]}, "`collect.paths` has 101 paths, more than 100"),
        ({"command": " "}, "`collect.command` is empty"),
        ({"command": 1}, "`collect.command` is a number, not a string"),
        ({"command": "x" * 110_000}, "`collect.command` has 110000 bytes, more than 102400"),
        ({"paths": ["a"], "restore": "git apply"}, "`collect.restore` has no `collect.command` whose output"),
        ({"paths": ["a"], "timeoutSeconds": 0}, "`collect.timeoutSeconds` is 0, not a whole number"),
        ({"paths": ["a"], "timeoutSeconds": 86401}, "`collect.timeoutSeconds` is 86401, more than 86400"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_line_and_the_fix(given: Any, words: str) -> None:
    (found,) = read({"collect": given})
    assert isinstance(found, InvalidRow)
    assert str(found).startswith(f"line 1: {words}")


@pytest.mark.parametrize("path", HOSTILE)
def test_hostile_names_stay_below_their_place_and_can_be_read_again(tmp_path: Path, path: str) -> None:
    place = ArtifactPlace(FolderStore(tmp_path), "artifacts/k-0-0/w/")
    assert place.keep(path, b"of this") == ""
    assert place.read(path) == b"of this"
    (listed,) = FolderStore(tmp_path).listing()
    assert listed.key.startswith("artifacts/k-0-0/w/files/")
    assert listed.key.isprintable()
    assert "\\" not in listed.key
    files = [file for file in (tmp_path / "artifacts").rglob("*") if file.is_file()]
    assert len(files) == 1


def test_names_that_differ_are_stored_apart() -> None:
    names = [*HOSTILE, "a%0Ab", "%2Ehidden", "/a:b", "a%5Cb", "a%252Fb"]
    assert len({object_name(name) for name in names}) == len(names)


@pytest.mark.parametrize("path", ["x" * 256, "\n" * 100, "a/" * 460 + "a", "", "/"])
def test_names_that_no_store_takes_are_left_out_with_the_reason(tmp_path: Path, path: str) -> None:
    assert (
        ArtifactPlace(FolderStore(tmp_path), "artifacts/k/w/").keep(path, b"x") == "its name is too long to be stored"
    )
    assert list(FolderStore(tmp_path).listing()) == []
