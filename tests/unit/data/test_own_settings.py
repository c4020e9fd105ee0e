"""What a row may set for itself: what is taken, what is refused and with which words, and what a key is made of."""

import json
from typing import Any

import pytest
from tests.unit.data.support import Run, batch_rows, jsonl

from batchrun_runner.dataset.own_settings import FILES_LIMIT_BYTES, RowBounds
from batchrun_runner.dataset.rows import InvalidRow, read_rows
from batchrun_runner.records import PromptRow, RowFile, Verify

BOUNDS = RowBounds(max_turns=10, timeout_seconds=60)
FULL: dict[str, Any] = {
    "prompt": "p",
    "env": {"PATH_TO_IT": "a b", "EMPTY": ""},
    "files": {"a/b.txt": "text\n", "bytes": {"base64": "AP8="}, "none": ""},
    "setup": "make",
    "timeoutSeconds": 60,
    "maxTurns": 10,
    "verify": {"command": "sh t.sh", "files": {"t.sh": "exit 0\n"}, "timeoutSeconds": 5},
    "note": 1,
}


def read(row: dict[str, Any]) -> PromptRow | InvalidRow:
    (found,) = read_rows([jsonl([row]).encode()], bounds=BOUNDS)
    return found


def key_of(row: dict[str, Any]) -> str:
    found = read(row)
    assert isinstance(found, PromptRow), found
    return found.key


def test_all_settings_are_taken_and_only_unknown_keys_are_given_back() -> None:
    row = read(FULL)

    assert isinstance(row, PromptRow)
    assert row.env == {"PATH_TO_IT": "a b", "EMPTY": ""}
    assert [(file.path, file.data) for file in row.files] == [
        ("a/b.txt", b"text\n"),
        ("bytes", b"\0\xff"),
        ("none", b""),
    ]
    assert (row.setup, row.timeout_seconds, row.max_turns) == ("make", 60, 10)
    assert row.verify == Verify("sh t.sh", (RowFile("t.sh", "exit 0\n"),), 5)
    assert row.extra == '{"note":1}'


def test_settings_that_are_null_or_empty_are_not_set() -> None:
    names = ("env", "files", "setup", "timeoutSeconds", "maxTurns", "verify")
    assert read({"prompt": "p", **dict.fromkeys(names), "env": {}, "files": {}}) == read({"prompt": "p"})


def test_the_keys_of_rows_without_settings_are_those_of_earlier_versions() -> None:
    row = {"prompt": "Say hello.", "image": "python:3.11", "cwd": "/w", "id": "t/1", "level": 3}
    assert key_of({"prompt": "Say hello."}) == "9eb76761477e39e8e1fdd331-0-0"
    assert key_of(row) == "b0b774722722b4c92547c2b0-0-0"


@pytest.mark.parametrize(
    "change",
    [
        {"env": {"PATH_TO_IT": "a b"}},
        {"files": {"a/b.txt": "text"}},
        {"setup": "make all"},
        {"verify": {"command": "sh u.sh"}},
        {"verify": {"command": "sh t.sh", "files": {"t.sh": "exit 1\n"}}},
    ],
)
def test_what_changes_the_work_or_its_verdict_makes_another_prompt(change: dict[str, Any]) -> None:
    assert key_of(FULL | change) != key_of(FULL)


def test_limits_and_the_order_of_names_do_not_make_another_prompt() -> None:
    limits = {"maxTurns": 3, "timeoutSeconds": 5, "verify": {"files": {"t.sh": "exit 0\n"}, "command": "sh t.sh"}}
    assert key_of(dict(reversed((FULL | limits).items()))) == key_of(FULL)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"env": ["A=1"]}, "`env` is a list, not an object; write {"),
        ({"env": {"A-B": "1"}}, "`env.A-B` is no name of an environment variable; use letters, digits and _"),
        ({"env": {"A": 1}}, "`env.A` is a number, not a string; quote it"),
        ({"env": {"A": "\0"}}, "`env.A` holds the character U+0000"),
        ({"env": {"BATCHRUN_X": "1"}}, "`env.BATCHRUN_X` begins with BATCHRUN_, which is ours; give it another name"),
        ({"env": {f"A{n}": "" for n in range(101)}}, "`env` has 101 variables, more than 100; put them into a file"),
        ({"env": {"A": "x" * 40_000}}, "`env` has 40001 bytes, more than 32768; put them into a file"),
        ({"files": "a"}, "`files` is a string, not an object; write {"),
        ({"files": {"a/": ""}}, "`files` 'a/' is no path of a file; give a path of 1 to 1024 bytes"),
        ({"files": {"a": 1}}, "`files` 'a' is neither a string nor {'base64': string}; give the text"),
        ({"files": {"a": {"base64": "?"}}}, "`files` 'a' is not base64"),
        ({"files": {str(n): "" for n in range(201)}}, "it brings 201 files, more than 200; pack them"),
        (
            {"files": {"a": "x" * FILES_LIMIT_BYTES}, "verify": {"command": "c", "files": {"b": "y"}}},
            "its files have 1048577 bytes together, more than 1048576; put large files into the image",
        ),
        ({"setup": " "}, "`setup` is empty; give a shell command or remove it"),
        ({"setup": ["make"]}, "`setup` is a list, not a string; quote it"),
        ({"setup": "x" * 200_000}, "`setup` has 200000 bytes, more than 102400; put it into a file and run that"),
        ({"maxTurns": 11}, "`maxTurns` is 11, more than 10 of agent.maxTurns; lower it or raise agent.maxTurns"),
        ({"maxTurns": 0}, "`maxTurns` is 0, not a whole number from 1 on; correct it"),
        ({"maxTurns": True}, "`maxTurns` is True, not a whole number"),
        ({"timeoutSeconds": "60"}, "`timeoutSeconds` is a string, not a whole number"),
        ({"timeoutSeconds": 61}, "`timeoutSeconds` is 61, more than 60 of agent.timeoutSeconds; lower it or raise"),
        ({"verify": "pytest"}, '`verify` is a string, not an object; write {"command": "..."}'),
        ({"verify": {}}, '`verify` has no `command`; write {"command": "..."}'),
        (
            {"verify": {"command": "c", "timeout": 5}},
            "`verify` has the key 'timeout', which it does not know; remove it",
        ),
        ({"verify": {"command": "c", "timeoutSeconds": 86401}}, "`verify.timeoutSeconds` is 86401, more than 86400"),
        ({"verify": {"command": "c", "files": {"": "x"}}}, "`verify.files` '' is no path of a file"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_line_and_the_fix(given: dict[str, Any], words: str) -> None:
    found = read({"prompt": "p", **given})

    assert isinstance(found, InvalidRow)
    assert str(found).startswith(f"line 1: {words}")


def test_a_name_that_is_given_twice_within_a_setting_is_refused() -> None:
    (found,) = read_rows([b'{"prompt":"p","env":{"A":"1","A":"2"}}\n'])
    assert isinstance(found, InvalidRow)
    assert "'A' twice" in found.reason


def test_settings_reach_the_batch_as_they_were_read(run: Run) -> None:
    run.spec = {"agent": {"maxTurns": 10, "timeoutSeconds": 60}}
    outcome = run.plan([FULL, {"prompt": "plain"}])
    (batch,) = outcome.plan.batches

    full, plain = batch_rows(run.store, outcome.plan.plan_id, batch)

    assert full == read(FULL)
    assert (plain.env, plain.files, plain.verify) == ({}, (), None)
    stored = run.store.get(f"plans/{outcome.plan.plan_id}/rows.jsonl").body.splitlines()[1]
    assert json.loads(stored).keys() == {"batch", "index", "key", "prompt"}
