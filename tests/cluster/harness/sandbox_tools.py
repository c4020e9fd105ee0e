"""One run that works with every tool of the sandbox, and what its result must look like in both modes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.cluster.harness.talk import calls_prompt, results

SPEC: dict[str, Any] = {"distribution": "terminal_only"}
_DIFF = """--- a/ours/notes.txt
+++ b/ours/notes.txt
@@ -1,2 +1,2 @@
-one
+eins
 zwei
"""


def rows() -> list[dict[str, Any]]:
    """The data set."""
    files = calls_prompt(
        "Edit.",
        ("write_file", {"path": "ours/notes.txt", "content": "one\ntwo\n"}),
        ("patch", {"path": "ours/notes.txt", "old_string": "two", "new_string": "zwei"}),
        ("patch", {"mode": "patch", "patch": _DIFF}),
        ("patch", {"path": "ours/notes.txt", "old_string": "three", "new_string": "drei"}),
        ("search_files", {"pattern": "z.ei", "path": "ours"}),
        ("search_files", {"pattern": "*.txt", "target": "files", "path": "ours"}),
        ("search_files", {"pattern": "("}),
        ("read_file", {"path": "ours/notes.txt"}),
        ("read_file", {"path": "missing.txt"}),
    )
    processes = calls_prompt(
        "Serve.",
        ("terminal", {"command": "read word; echo got $word; exit 3", "background": True}),
        ("process", {"action": "poll", "process_id": "p1"}),
        ("process", {"action": "write", "process_id": "p1", "data": "it\n"}),
        ("process", {"action": "wait", "process_id": "p1"}),
        ("process", {"action": "log", "process_id": "p1"}),
        ("terminal", {"command": "sleep 300", "background": True}),
        ("process", {"action": "kill", "process_id": "p2"}),
        ("process", {"action": "list"}),
        ("process", {"action": "poll", "process_id": "p3"}),
    )
    return [{"id": "files", "prompt": files}, {"id": "processes", "prompt": processes}]


def judge(result: Sequence[dict[str, Any]]) -> None:
    """Results of the calls, and their counts."""
    found = {row["id"]: row for row in result}
    assert {row["outcome"] for row in result} == {"completed"}
    _, replaced, patched, unfit, lines, names, no_pattern, text, missing = results(found["files"])
    assert (replaced["replaced"], patched["hunks"]) == (1, 1)
    assert "three" not in text["content"]
    assert unfit["error"]
    assert [(match["line"], match["text"]) for match in lines["matches"]] == [(2, "zwei")]
    assert [name.rpartition("/")[2] for name in names["files"]] == ["notes.txt"]
    assert no_pattern["error"]
    assert "eins" in text["content"]
    assert "zwei" in text["content"]
    assert "missing.txt" in missing["error"]
    assert counts(found["files"]) == {
        "write_file": (1, 0), "patch": (2, 1), "search_files": (2, 1), "read_file": (1, 1)
    }  # fmt: skip

    _, running, written, ended, log, _, killed, listed, unknown = results(found["processes"])
    assert running["status"] == "running"
    assert written["written_bytes"] == 3
    assert (ended["status"], ended["exit_code"], ended["output"]) == ("ended", 3, "got it\n")
    assert log["output"] == "got it\n"
    assert killed["status"] == "ended"
    assert [process["process_id"] for process in listed["processes"]] == ["p1", "p2"]
    assert "p3" in unknown["error"]
    assert counts(found["processes"]) == {"terminal": (2, 0), "process": (6, 1)}
    assert all(row["tool_error_counts"][tool] == failed for row in result for tool, (_, failed) in counts(row).items())


def counts(row: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Successes and failures of each tool that a row called."""
    stats = row["tool_stats"]
    return {tool: (of["success"], of["failure"]) for tool, of in stats.items() if of["count"]}
