"""The model's tools on a real sandbox: what it calls, and the JSON that it gets."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.contract.sandbox.support import names

from batchrun_api.outcomes import Outcome
from batchrun_runner.sandbox.backend import SandboxLease
from batchrun_runner.sandbox.errors import SandboxLost
from batchrun_runner.tools.context import ToolContext, ToolLimits, ToolResult
from batchrun_runner.tools.registry import TOOLS, execute

FAST = ToolLimits(command_seconds=10, max_command_seconds=20, output_bytes=1000, read_bytes=2000, line_bytes=100)


class Model:
    """Calls tools and reads what they say."""

    def __init__(self, context: ToolContext) -> None:
        self.context = context
        self.last = ToolResult("")

    async def __call__(self, name: str, **arguments: Any) -> dict[str, Any]:
        self.last = await execute(name, arguments, self.context)
        said: dict[str, Any] = json.loads(self.last.content)
        assert self.last.failed == (said["error"] is not None)
        assert (self.last.error_kind is not None) == self.last.failed
        return said


@pytest.fixture
async def model(lease: SandboxLease) -> Model:
    return Model(ToolContext(lease.sandbox, lease.cwd, tuple(TOOLS), limits=FAST, env={"COLOUR": "blue"}))


@pytest.fixture
def work(lease: SandboxLease) -> Path:
    return Path(lease.cwd)


async def test_terminal_gives_output_and_exit_code_and_a_non_zero_one_is_no_failure(model: Model) -> None:
    said = await model("terminal", command="echo $COLOUR; exit 3")

    assert said == {
        "output": "blue\n",
        "exit_code": 3,
        "error": None,
    }
    assert not model.last.failed


async def test_terminal_remembers_the_working_directory(model: Model, work: Path) -> None:
    await model("terminal", command="mkdir -p a/b && cd a/b")
    await model("write_file", path="here", content="x")

    assert (await model("terminal", command="pwd"))["output"] == f"{work}/a/b\n"
    assert (work / "a/b/here").read_text() == "x"


async def test_terminal_is_honest_when_the_working_directory_is_gone(model: Model, work: Path) -> None:
    said = await model("terminal", command="mkdir d && cd d && rmdir ../d")

    assert said["exit_code"] == 0
    assert said["notes"] == [f"the working directory {work}/d is gone; the next command runs in {work}"]
    assert (await model("terminal", command="pwd"))["output"] == f"{work}\n"


async def test_terminal_goes_on_when_even_the_first_directory_was_deleted(model: Model, work: Path) -> None:
    await model("terminal", command=f"rm -rf {work}")

    assert (await model("terminal", command="echo alive"))["output"] == "alive\n"


async def test_terminal_timeout_is_a_failure_with_what_was_printed(model: Model) -> None:
    said = await model("terminal", command="echo before; sleep 300", timeout=1)

    assert (said["output"], said["exit_code"], said["timed_out"]) == ("before\n", None, True)
    assert "1 s" in said["error"]
    assert model.last.error_kind == "timeout"


async def test_terminal_output_is_cut_with_a_note(model: Model) -> None:
    said = await model("terminal", command="seq 100000")

    assert said["output"].startswith("1\n2\n")
    assert said["output"].endswith("99999\n100000\n")
    assert "bytes omitted" in said["output"]
    assert "bytes in the middle" in said["omitted"]


async def test_terminal_tells_of_what_lives_on(model: Model) -> None:
    said = await model("terminal", command="sleep 300 & echo ok")

    assert said["output"] == "ok\n"
    assert "1 process(es)" in said["notes"][0]


async def test_terminal_limits_a_timeout_and_says_so(model: Model) -> None:
    assert (await model("terminal", command="true", timeout=10_000))["notes"] == ["the timeout was limited to 20 s"]


async def test_a_nul_in_arguments_is_a_tool_error(model: Model) -> None:
    for name, arguments in [
        ("terminal", {"command": "echo a\0b"}),
        ("read_file", {"path": "a\0b"}),
        ("write_file", {"path": "f", "content": "\0"}),
    ]:
        said = await model(name, **arguments)
        assert "NUL" in said["error"]
        assert model.last.error_kind == "invalid_arguments"


async def test_a_nul_in_output_stays_escaped(model: Model) -> None:
    assert (await model("terminal", command="printf 'a\\0b'"))["output"] == "a\0b"
    assert "\0" not in model.last.content
    assert "\\u0000" in model.last.content


async def test_half_a_surrogate_pair_is_replaced_and_a_pair_is_one_character(model: Model, work: Path) -> None:
    await model("write_file", path="f", content="half \ud83d whole \ud83c\udf78")

    assert (work / "f").read_text() == "half \ufffd whole 🍸"


async def test_a_process_is_looked_after(model: Model) -> None:
    started = await model("terminal", command="read line; echo got $line; exit 4", background=True)
    process_id = started["process_id"]
    assert (started["exit_code"], started["error"]) == (None, None)

    assert (await model("process", action="poll", process_id=process_id))["status"] == "running"
    assert (await model("process", action="write", process_id=process_id, data="it\n"))["written_bytes"] == 3
    ended = await model("process", action="wait", process_id=process_id)
    assert (ended["status"], ended["exit_code"], ended["output"]) == ("ended", 4, "got it\n")
    assert (await model("process", action="poll", process_id=process_id))["output"] == ""
    assert (await model("process", action="log", process_id=process_id))["output"] == "got it\n"
    assert [process["exit_code"] for process in (await model("process", action="list"))["processes"]] == [4]


async def test_a_process_is_killed(model: Model) -> None:
    process_id = (await model("terminal", command="sleep 300", background=True))["process_id"]

    waited = await model("process", action="wait", process_id=process_id, timeout=1)
    killed = await model("process", action="kill", process_id=process_id)

    assert waited["note"] == "still running after 1 s"
    assert (killed["status"], killed["exit_code"]) == ("ended", 143)


async def test_an_unknown_process_is_a_failure(model: Model) -> None:
    assert "p9" in (await model("process", action="poll", process_id="p9"))["error"]
    assert model.last.error_kind == "not_found"


async def test_read_file_numbers_lines_and_leads_on(model: Model, work: Path) -> None:
    (work / "f").write_text("".join(f"line {number}\n" for number in range(1, 8)))

    first = await model("read_file", path="f", limit=3)
    second = await model("read_file", path="f", offset=first["next_offset"], limit=100)

    assert first["content"] == "1|line 1\n2|line 2\n3|line 3"
    assert (first["next_offset"], first["total_lines"]) == (4, 7)
    assert second["content"].startswith("4|line 4\n")
    assert "next_offset" not in second


async def test_read_file_cuts_a_long_line_and_says_so(model: Model, work: Path) -> None:
    (work / "f").write_text("é" * 500 + "\nnext\n")

    said = await model("read_file", path="f")

    assert said["content"] == f"1|{'é' * 50} [... 900 more bytes in this line]\n2|next"


async def test_read_file_stops_at_its_bytes_and_says_so(model: Model, work: Path) -> None:
    (work / "f").write_text(f"{'x' * 99}\n" * 100)

    said = await model("read_file", path="f", limit=50)
    rest = await model("read_file", path="f", offset=91, limit=10)

    shown = said["next_offset"] - 1
    assert 0 < shown < 50
    assert len(said["content"].encode()) < 2000 + shown * len("99|")
    assert said["note"] == f"one call shows 2000 bytes at most: {shown} of the 50 lines are here"
    assert "note" not in rest


@pytest.mark.parametrize(
    ("path", "kind"),
    [("none", "not_found"), (".", "is_directory"), ("/dev/zero", "not_a_file"), ("bin", "binary_file")],
)
async def test_read_file_refuses_what_is_no_text_file(model: Model, work: Path, path: str, kind: str) -> None:
    (work / "bin").write_bytes(b"\x7fELF\0\0")

    assert (await model("read_file", path=path))["error"]
    assert model.last.error_kind == kind


async def test_read_file_beyond_the_end_is_a_note(model: Model, work: Path) -> None:
    (work / "f").write_text("one\n")
    (work / "empty").touch()

    assert (await model("read_file", path="f", offset=5))["note"] == "the file has 1 lines, none from 5 on"
    assert (await model("read_file", path="empty"))["note"] == "the file is empty"


async def test_write_file_makes_folders(model: Model, work: Path) -> None:
    said = await model("write_file", path="a/b/c.txt", content="é\n")

    assert said == {"path": f"{work}/a/b/c.txt", "written_bytes": 3, "created": True, "error": None}


async def test_write_file_is_seen_as_a_whole_or_not_at_all(model: Model) -> None:
    """A reader of the same place never finds it missing, empty or half written."""
    await model("write_file", path="f", content="a" * 500_000)
    watch = (
        "while ! test -e stop; do head -c 1 f; wc -c < f; tail -c 1 f; done 2>&1 | grep -v '^[ab]*500000$' | tr -d ab"
    )
    watcher = (await model("terminal", command=watch, background=True))["process_id"]

    for content in "ba" * 15:
        await model("write_file", path="f", content=content * 500_000)
    await model("terminal", command="touch stop")

    ended = await model("process", action="wait", process_id=watcher)
    assert (ended["status"], ended["output"].strip()) == ("ended", "")
    assert (await model("terminal", command="ls -A"))["output"] == "f\nstop\n"


async def test_patch_replaces_the_one_place(model: Model, work: Path) -> None:
    (work / "f").write_bytes(b"one\r\ntwo\r\n\xff\r\n")

    said = await model("patch", path="f", old_string="one\ntwo", new_string="1\n2")

    assert (said["replaced"], said["lines"]) == (1, [1])
    assert (work / "f").read_bytes() == b"1\r\n2\r\n\xff\r\n"


@pytest.mark.parametrize(
    ("old", "kind", "words"),
    [
        ("x = 2", "no_match", "does not occur"),
        ("x = 1", "ambiguous_match", "2 times"),
        ("", "invalid_arguments", "empty"),
    ],
)
async def test_patch_that_fits_nowhere_or_twice_changes_nothing(
    model: Model, work: Path, old: str, kind: str, words: str
) -> None:
    (work / "f").write_text("x = 1\nx = 1\n")

    said = await model("patch", path="f", old_string=old, new_string="y")

    assert words in said["error"]
    assert model.last.error_kind == kind
    assert (work / "f").read_text() == "x = 1\nx = 1\n"


async def test_patch_that_cannot_write_its_second_file_says_that_the_first_is_done(model: Model, work: Path) -> None:
    (work / "a").write_text("old\n")
    diff = "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-old\n+new\n--- /dev/null\n+++ /proc/none/b\n@@ -0,0 +1 @@\n+hello\n"

    said = await model("patch", mode="patch", patch=diff)

    assert (work / "a").read_text() == "new\n"
    assert said["error"].endswith(f"already patched: {work}/a")


async def test_patch_applies_a_diff_to_several_files_or_to_none(model: Model, work: Path) -> None:
    (work / "a").write_text("1\n2\n3\n")
    good = "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n--- /dev/null\n+++ b/new/b\n@@ -0,0 +1 @@\n+hello\n"
    bad = good.replace("-2", "-7")

    assert (await model("patch", mode="patch", patch=bad))["error"].startswith("the hunk")
    assert names(work) == ["a"]
    assert (await model("patch", mode="patch", patch=good))["hunks"] == 2
    assert (work / "a").read_text() == "1\ntwo\n3\n"
    assert (work / "new/b").read_text() == "hello\n"
    assert "exists already" in (await model("patch", mode="patch", patch=good.replace("1\n-2", "1\n-two")))["error"]


async def test_search_files_finds_text_and_names(model: Model, work: Path) -> None:
    (work / "src").mkdir()
    (work / "src/a.py").write_text("import os\nprint(os)\n")
    (work / "src/b.txt").write_text("import\n")

    content = await model("search_files", pattern="import \\w+")
    names = await model("search_files", pattern="b.", target="files")
    counts = await model("search_files", pattern="os", output_mode="count", path="src")
    page = await model("search_files", pattern="i", output_mode="files_only", limit=1)
    nothing = await model("search_files", pattern="nowhere")

    assert content["matches"] == [{"path": "src/a.py", "line": 1, "text": "import os"}]
    assert names["files"] == ["src/b.txt"]
    assert counts["counts"] == {"src/a.py": 2}
    assert (page["files"], page["next_offset"]) == (["src/a.py"], 1)
    assert nothing == {"matches": [], "error": None}


async def test_search_files_refuses_a_pattern_that_is_none(model: Model) -> None:
    assert "missing closing" in (await model("search_files", pattern="("))["error"]


async def test_an_unknown_tool_names_those_that_exist(model: Model) -> None:
    model.context.tools = ("terminal", "read_file")

    for name in ("generic_command", "write_file"):
        assert "terminal, read_file" in (await model(name, x=1))["error"]
        assert model.last.error_kind == "unknown_tool"


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("terminal", {}, "command: Field required"),
        ("terminal", {"command": ["ls"]}, "command: Input should be a valid string"),
        ("terminal", {"command": "ls", "sudo": True}, "sudo: there is no such argument"),
        ("read_file", {"path": "f", "offset": 0}, "offset: Input should be greater"),
        ("process", {"action": "poll"}, "process_id is needed for poll"),
        ("process", {"action": "dance"}, "action: Input should be 'list'"),
        ("patch", {"mode": "patch"}, "patch is needed"),
    ],
)
async def test_wrong_arguments_name_the_field(model: Model, name: str, arguments: dict[str, Any], words: str) -> None:
    assert words in (await model(name, **arguments))["error"]
    assert model.last.error_kind == "invalid_arguments"


async def test_a_lost_sandbox_is_no_tool_error(model: Model, lease: SandboxLease) -> None:
    await lease.sandbox.end(Outcome.COMPLETED)

    with pytest.raises(SandboxLost):
        await execute("terminal", {"command": "true"}, model.context)
