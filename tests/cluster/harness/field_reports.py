"""Field reports c01 to c11 and d01 as rows of one run, and what must hold of each: one table for all kinds of sandbox.

A case is named after the fault that somebody had; its row's `id` is that name. What a case needs of its image is in
the Dockerfiles of tests/cluster/testbed/sandbox_images, which the cluster and local containers both build from.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import pytest

from tests.cluster.harness.evidence import assert_figures_add_up
from tests.cluster.harness.talk import calls_prompt, results

Row = Mapping[str, Any]
Call = tuple[str, dict[str, Any]]


class Mode(Enum):
    """Where the commands of a run go."""

    PROCESS = "process"
    CONTAINER = "container"
    POD = "pod"


@dataclass(frozen=True)
class Case:
    """One prompt. `settings` are more columns of its row; `{name}` in their texts is filled in by the test."""

    name: str
    calls: tuple[Call, ...]
    holds: Callable[[Row], None]
    settings: Mapping[str, str] = field(default_factory=dict)
    modes: frozenset[Mode] = frozenset(Mode)


SPEC: dict[str, Any] = {"agent": {"maxTurns": 12}, "batchSize": 10, "promptsPerPod": 5, "numWorkers": 2}
IMAGES = ("busybox", "entrypoint-ends", "entrypoint-shell", "stranger")
"""Folders of Dockerfiles that rows name, as `{busybox}`; `{work}` is a folder that commands may write in."""
WITH_IMAGES = frozenset({Mode.CONTAINER, Mode.POD})
LEFT_BEHIND = "3600.0601"
"""The argument of every `sleep` that is left behind: no other process of the machine has it."""
SMALL_DISK = "/small"
"""A file system of 16 MB, where the mode has one."""
HELPER_KIB = 20_000
"""What sandboxd may have used at most, whatever was thrown at it."""
_PEAK = "grep VmHWM /proc/$PPID/status"


def run(command: str, timeout: int = 60) -> Call:
    """A terminal call."""
    return "terminal", {"command": command, "timeout": timeout}


def said(row: Row) -> list[dict[str, Any]]:
    """What the tools answered to a prompt that ended as it should."""
    assert (row["outcome"], row["reason"]) == ("completed", ""), row["message"]
    return results(dict(row))


def _peak_kib(result: Mapping[str, Any]) -> int:
    return int(result["output"].split()[1])


# ---- c01: children that stay ---------------------------------------------------------------------------------------


def _returns_at_once(row: Row) -> None:
    left, after = said(row)
    assert (left["output"], left["exit_code"]) == ("ok\n", 0)
    assert "1 process(es)" in left["notes"][0]
    assert after["output"] == "next\n"
    assert row["seconds"]["tools"] < 10, "it waited for the child"


def _printer_goes_on(row: Row) -> None:
    left, after = said(row)
    assert left["exit_code"] == 0
    assert "ok\n" in left["output"]
    assert (after["output"], after["exit_code"]) == ("unbroken\n", 0)
    assert row["seconds"]["tools"] < 10


_NEXT = run("echo next")
_PRINTER = f"(while sleep 0.01; do echo noise; done; touch broken; sleep {LEFT_BEHIND}) & echo ok"
_CHILDREN = (
    Case(
        "c01: a child that holds the pipe holds the result",
        (run(f"sleep {LEFT_BEHIND} & echo ok"), _NEXT),
        _returns_at_once,
    ),
    Case(
        "c01: a child in a session of its own", (run(f"setsid sleep {LEFT_BEHIND} & echo ok"), _NEXT), _returns_at_once
    ),
    Case("c01: a printer in the background", (run(_PRINTER), run("test -e broken || echo unbroken")), _printer_goes_on),
)


# ---- c02: commands that ask ----------------------------------------------------------------------------------------


def _asks_nobody(row: Row) -> None:
    *asked, after = said(row)
    for result in asked:
        assert result["error"] is None, "it ran into its timeout"
    assert [result["exit_code"] for result in asked] == [0, 0, 3, 0, 1]
    assert asked[1]["output"] == "[]\n"
    assert asked[2]["output"] == "Continue? [Y/n] no answer\n"
    assert asked[4]["output"].endswith("nobody\n")
    assert after["output"] == "noninteractive 0 cat true\n"
    assert row["seconds"]["tools"] < 20


_ASKS = (
    run("cat"),
    run('read x; echo "[$x]"'),
    run("printf 'Continue? [Y/n] '; read x || { echo no answer; exit 3; }"),
    run("sh -i"),
    run("(read x </dev/tty) 2>/dev/null || { echo nobody; exit 1; }"),
    run("echo $DEBIAN_FRONTEND $GIT_TERMINAL_PROMPT $PAGER $EDITOR"),
)


# ---- c03, c04: floods and cuts -------------------------------------------------------------------------------------


def _is_bounded(row: Row) -> None:
    endless, random, loud, helper = said(row)
    for result in (endless, random):
        assert (result["timed_out"], result["exit_code"]) == (True, None)
        assert "was killed" in result["error"]
    assert loud["exit_code"] == 0
    assert set(loud["output"].partition("\n[...")[0]) == {"e"}
    assert loud["output"].endswith("e")
    for result in (endless, random, loud):
        assert len(result["output"].encode()) < 51_000
        assert "bytes in the middle of the output were left out" in result["omitted"]
    assert int(loud["omitted"].split()[0]) == 500_000_000 - 50_000
    assert _peak_kib(helper) < HELPER_KIB


_FLOODS = (
    run("yes", 2),
    run("cat /dev/urandom | base64", 2),
    run("head -c 500000000 /dev/zero | tr '\\0' e >&2"),
    run(_PEAK),
)


def _cuts_between_characters(row: Row) -> None:
    *cut, after = said(row)
    for lead, result in enumerate(cut):
        head, _, rest = result["output"].partition("\n[... ")
        omitted, _, tail = rest.partition(" bytes omitted ...]\n")
        assert set(head[lead:] + tail) == {"🍸", "é"}
        assert len((head + tail).encode()) + int(omitted) == lead + 20_000 * 6
    assert after["output"] == "next\n"
    assert "\ufffd" not in json.dumps(row["conversations"], ensure_ascii=False)


_LEADS = tuple(run(f"printf '%s' '{'x' * lead}'; yes 🍸é | head -n 20000 | tr -d '\\n'") for lead in range(6))

# ---- c05: orphans --------------------------------------------------------------------------------------------------

# Whatever the helper has adopted and not yet reaped, alive or dead: all its children but the asking shell.
_ORPHANS_LEFT = '$(($(cat /proc/[0-9]*/stat 2>/dev/null | grep -c ") . $PPID ") - 1))'


def _reaps(row: Row) -> None:
    forked, counted = said(row)
    assert forked["exit_code"] == 0
    assert counted["output"] == "orphans 0\nstarted\n"


_ORPHANS = (
    run("i=0; while [ $i -lt 500 ]; do (sleep 0.1 &); i=$((i+1)); done"),
    run(
        f"i=0; left={_ORPHANS_LEFT}; "
        f"while [ $i -lt 300 ] && [ $left != 0 ]; do sleep 0.1; i=$((i+1)); left={_ORPHANS_LEFT}; done; "
        "echo orphans $left; sh -c 'echo started'"
    ),
)

# ---- c06, c07, c08: images -----------------------------------------------------------------------------------------


def _stands_in(folder: str, *, marker: str = "") -> Callable[[Row], None]:
    def holds(row: Row) -> None:
        pwd, made, image = said(row)
        assert pwd["output"].endswith(f"{folder}\n")
        assert made["exit_code"] == 0
        assert not marker or image["output"] == f"{marker}\n"

    return holds


_LOOKS = (run("pwd"), run("echo x > here && rm here"), run("cat /etc/batchrun-test-image 2>/dev/null; true"))


def _names_its_folder(row: Row) -> None:
    assert (row["outcome"], row["reason"], row["api_calls"]) == ("failed", "SandboxUnavailable", 0)
    assert "/dev/null/none" in row["message"]


def _lives_with_what_it_has(uid: int, refusal: str) -> Callable[[Row], None]:
    def holds(row: Row) -> None:
        who, homes, refused, denied, written, read = said(row)
        assert who["output"] == f"{uid}\n"
        assert homes["output"] == "both\n", "HOME or TMPDIR cannot be written"
        assert refused["exit_code"] == 1
        assert refusal.lower() in refused["output"].lower()
        assert refusal.lower() in denied["error"].lower()
        assert (written["error"], read["content"]) == (None, "1|kept")

    return holds


_WRITES: tuple[Call, ...] = (
    run("id -u"),
    run("touch $HOME/f && touch ${TMPDIR:-/tmp}/g && echo both"),
    run("touch /etc/f"),
    ("write_file", {"path": "/etc/f", "content": "x"}),
    ("write_file", {"path": "~/deep/er", "content": "kept\n"}),
    ("read_file", {"path": "~/deep/er"}),
)


def _in(image: str, name: str, calls: tuple[Call, ...], holds: Callable[[Row], None], **more: str) -> Case:
    return Case(name, calls, holds, {"image": image, **more}, WITH_IMAGES)


_ENDS, _SHELL = "{entrypoint-ends}", "{entrypoint-shell}"
_AT_HOME, _ELSEWHERE, _OF_THE_ROW = (
    _stands_in(folder, marker=marker)
    for folder, marker in (
        ("/home/app", "entrypoint-ends"),
        ("/srv/other", "entrypoint-shell"),
        ("/srv/none", "entrypoint-ends"),
    )
)
_IMAGE_CASES = (
    _in(_ENDS, "c06: an entrypoint that ends takes the sandbox with it", _LOOKS, _AT_HOME),
    _in(_SHELL, "c06: an entrypoint runs the keep-alive as its argument", _LOOKS, _ELSEWHERE),
    _in(_ENDS, "c07: the row's working directory in an image with its own", _LOOKS, _OF_THE_ROW, cwd="/srv/none"),
    Case("c07: a working directory that is not there", _LOOKS, _stands_in("/data/none"), {"cwd": "{work}/data/none"}),
    Case("c07: a working directory that cannot be", _LOOKS, _names_its_folder, {"cwd": "/dev/null/none"}),
    _in(
        "{stranger}",
        "c08: no name, no home, nothing to write in",
        _WRITES,
        _lives_with_what_it_has(65532, "permission denied"),
    ),
)
READ_ONLY_CASES = tuple(
    _in(image, f"c08: a read-only root as user {uid}", _WRITES, _lives_with_what_it_has(uid, "read-only"))
    for image, uid in (("{stranger}", 65532), ("{busybox}", 0))
)
"""For a run whose containers have a read-only root file system."""


# ---- c09, c10: memory and disk; of a pod, other tests ask ----------------------------------------------------------

MEMORY_LIMIT = "256Mi"


def _says_out_of_memory(row: Row) -> None:
    if row["outcome"] == "failed":  # cgroup v2 ends the whole container
        assert row["reason"] == "SandboxLost"
        return
    _, big, after = said(row)
    assert "out of memory" in big["notes"][0]
    assert after["output"] == "kept\n", "it was continued in a blank sandbox"


def _says_disk_full(row: Row) -> None:
    filled, denied, freed, written = said(row)
    assert filled["exit_code"] != 0
    assert "No space left" in filled["output"]
    assert "no space left" in denied["error"]
    assert (freed["exit_code"], written["error"]) == (0, None)


_FILLS: tuple[Call, ...] = (
    run(f"dd if=/dev/zero of={SMALL_DISK}/fill bs=1M count=5000"),
    ("write_file", {"path": f"{SMALL_DISK}/more", "content": "x" * 5000}),
    run(f"rm {SMALL_DISK}/fill"),
    ("write_file", {"path": f"{SMALL_DISK}/more", "content": "x" * 5000}),
)
_EATS = (run("echo kept > file"), run("head -c 10000000000 /dev/zero | tail"), run("cat file"))
_LIMITED = frozenset({Mode.CONTAINER})

# ---- c11: files that are too much ----------------------------------------------------------------------------------


def _reads_a_little(row: Row) -> None:
    _, line, device, pipe, folder, helper = said(row)
    assert len(line["content"].encode()) < 61_000
    assert "more bytes in this line]" in line["content"]
    assert "not a regular file" in device["error"]
    assert "not a regular file" in pipe["error"]
    assert "is a directory" in folder["error"]
    assert _peak_kib(helper) < HELPER_KIB
    assert row["seconds"]["tools"] < 60


_READS: tuple[Call, ...] = (
    run("head -c 100000000 /dev/zero | tr '\\0' x > long; mkfifo pipe"),
    ("read_file", {"path": "long", "limit": 1}),
    ("read_file", {"path": "/dev/zero"}),
    ("read_file", {"path": "pipe"}),
    ("read_file", {"path": "."}),
    run(_PEAK),
)

# ---- d01: images that are not to be had ----------------------------------------------------------------------------


def _names_its_image(image: str) -> Callable[[Row], None]:
    def holds(row: Row) -> None:
        assert (row["outcome"], row["reason"], row["api_calls"]) == ("failed", "ImageUnavailable", 0)
        assert image in row["message"]

    return holds


# ---- all of them ---------------------------------------------------------------------------------------------------

CASES = (
    *_CHILDREN,
    Case("c02: a command waits for somebody who is not there", _ASKS, _asks_nobody),
    Case("c03: endless output is kept in memory", _FLOODS, _is_bounded),
    Case("c04: a cut in the middle of a character", (*_LEADS, _NEXT), _cuts_between_characters),
    Case("c05: orphans pile up as zombies", _ORPHANS, _reaps),
    *_IMAGE_CASES,
    Case("c09: a command takes all memory", _EATS, _says_out_of_memory, modes=_LIMITED),
    Case("c10: a command fills the disk", _FILLS, _says_disk_full, modes=_LIMITED),
    Case("c11: a file tool reads the whole file first", _READS, _reads_a_little),
    _in(
        "registry.invalid/none:1",
        "d01: an image that cannot be pulled",
        _LOOKS,
        _names_its_image("registry.invalid/none:1"),
    ),
    _in("Bad Image:Tag", "d01: an image whose name is none", _LOOKS, _names_its_image("Bad Image:Tag")),
)


def _of(mode: Mode, table: Sequence[Case]) -> list[Case]:
    return [case for case in table if mode in case.modes]


def rows(mode: Mode, names: Mapping[str, str], table: Sequence[Case] = CASES) -> list[dict[str, Any]]:
    """The data set of a mode; `names` fill in the texts of the settings."""
    return [
        {"id": case.name, "prompt": calls_prompt(case.name, *case.calls)}
        | {key: _filled(text, names) for key, text in case.settings.items()}
        for case in _of(mode, table)
    ]


def _filled(text: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        text = text.replace("{" + name + "}", value)
    return text


def judge(
    mode: Mode, found: Sequence[Row], statistics: Row, subtests: pytest.Subtests, table: Sequence[Case] = CASES
) -> None:
    """Every case holds, each in a subtest of its own, and the figures of the whole add up."""
    by_name = {row["id"]: row for row in found}
    assert list(by_name) == [case.name for case in _of(mode, table)]
    for case in _of(mode, table):
        with subtests.test(case.name):
            case.holds(by_name[case.name])
    assert_figures_add_up(statistics, found)
