"""The plugin's own parts: what it shows, when it ends, and what it brings into a folder."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from batchrun_api.spec.run import BatchRunSpec
from batchrun_api.status import BatchRunStatus
from batchrun_cli.cluster import Seen
from batchrun_cli.display import PlainDisplay, View, duration, render
from batchrun_cli.errors import CommandError, in_words
from batchrun_cli.results import STATE, download
from batchrun_cli.watching import Rate, exit_code
from batchrun_operator.kube.errors import error_of
from batchrun_runner.storage.folder import FolderStore


def status(*conditions: tuple[str, str], **prompts: int) -> BatchRunStatus:
    return BatchRunStatus.model_validate(
        {
            "phase": "Running",
            "prompts": prompts,
            "conditions": [
                {"type": kind, "status": "True", "reason": reason, "message": "why", "lastTransitionTime": "t"}
                for kind, reason in conditions
            ],
        }
    )


def seen(found: BatchRunStatus) -> Seen:
    return Seen("uid", BatchRunSpec.model_validate({"dataset": {"inline": "x"}}), found, "demo")


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (status(total=2, notRun=2), None),
        (status(("Suspended", "Suspended"), total=2, notRun=2), None),
        (status(("Complete", "AllPromptsDone"), total=2, completed=2), 0),
        (status(("Complete", "SomePromptsFailed"), total=2, completed=1, failed=1), 1),
        (status(("Failed", "InvalidSpec")), 2),
    ],
)
def test_a_watch_ends_with_the_run_and_says_how(found: BatchRunStatus, code: int | None) -> None:
    assert exit_code(seen(found)) == code


def test_the_rate_is_of_the_plan_that_is_worked_on() -> None:
    rate = Rate()
    assert rate.add(0.0, "a", 10) is None
    assert rate.add(30.0, "a", 20) == pytest.approx(20.0)
    assert rate.add(31.0, "b", 500) is None


def test_a_line_is_printed_for_a_change_and_a_condition_is_told_once() -> None:
    output = io.StringIO()
    display = PlainDisplay(Console(file=output, width=40))
    view = View("demo", status(("RateLimited", "RateLimited"), total=4, completed=1, failed=1, notRun=2), tokens=7)
    display.show(view)
    display.show(view)
    assert output.getvalue().splitlines() == [
        "demo: Running, 2/4 prompts, 1 completed, 1 failed, 0/0 batches, 0 active; 7 tokens",
        "demo: RateLimited (RateLimited): why",
    ]


def test_bars_show_prompts_outcomes_rate_and_time_left() -> None:
    output = io.StringIO()
    view = View("demo", status(total=4, completed=2, notRun=2), tokens=7, per_minute=2.0)
    Console(file=output, width=120).print(render(view))
    for words in ("2/4", "2 completed", "7 tokens", "2.0 prompts/min", "60 s left"):
        assert words in output.getvalue()


def test_durations_are_short() -> None:
    assert [duration(seconds) for seconds in (45, 720, 12000)] == ["45 s", "12 min", "3 h 20 min"]


@pytest.mark.parametrize(
    ("code", "body", "says"),
    [
        (404, {"reason": "NotFound", "message": "x"}, "there is no BatchRun demo"),
        (404, {"message": "404 page not found"}, "install the chart"),
        (
            403,
            {"reason": "Forbidden", "message": "user cannot get\nbatchruns"},
            "not allowed: user cannot get batchruns",
        ),
        (401, {"reason": "Unauthorized"}, "log in again"),
    ],
)
def test_each_answer_of_the_cluster_is_one_line(code: int, body: dict[str, Any], says: str) -> None:
    words = str(in_words(error_of(code, body), "BatchRun demo"))
    assert says in words
    assert "\n" not in words


def fetched(store: FolderStore, folder: Path, *, everything: bool = False) -> list[str]:
    keys: list[str] = []
    download(store, folder, everything=everything, tell=lambda key, *_: keys.append(key))
    return keys


def test_a_download_goes_on_where_it_was_and_leaves_out_what_resume_needs(tmp_path: Path) -> None:
    store, folder = FolderStore(tmp_path / "store"), tmp_path / "here"
    for key in ("trajectories.jsonl", "artifacts/k/w/file", "parts/batch_0/x.w", "ledger/batch_0.jsonl"):
        store.put(key, key.encode())

    assert fetched(store, folder) == ["artifacts/k/w/file", "trajectories.jsonl"]
    assert (folder / "artifacts/k/w/file").read_bytes() == b"artifacts/k/w/file"
    assert fetched(store, folder) == []

    store.put("trajectories.jsonl", b"new")
    (folder / "artifacts/k/w/file").write_bytes(b"torn")
    assert fetched(store, folder) == ["artifacts/k/w/file", "trajectories.jsonl"]
    assert fetched(store, folder, everything=True) == ["ledger/batch_0.jsonl", "parts/batch_0/x.w"]

    (folder / STATE).write_bytes(b"{torn")
    assert len(fetched(store, folder)) == 2


def test_a_download_writes_nothing_outside_its_folder(tmp_path: Path) -> None:
    store, folder = FolderStore(tmp_path / "store"), tmp_path / "here"
    store.put("artifacts/file", b"x")
    folder.mkdir()
    (tmp_path / "away").mkdir()
    (folder / "artifacts").symlink_to(tmp_path / "away")

    with pytest.raises(CommandError, match="leads out of the folder"):
        fetched(store, folder)

    assert list((tmp_path / "away").iterdir()) == []


def test_an_empty_place_is_told(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="nothing is stored"):
        fetched(FolderStore(tmp_path / "store"), tmp_path / "here")
