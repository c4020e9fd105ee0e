"""What a batch's runner leaves behind when it cannot go on."""

from pathlib import Path

import pytest

from batchrun_api.exit_codes import ExitCode
from batchrun_api.messages import BatchMessage
from batchrun_runner.plan import read_batch_rows
from batchrun_runner.pod.ending import ENV_TERMINATION_LOG, batch_ending
from batchrun_runner.pod.enforcement import NetworkNotEnforced
from batchrun_runner.storage.folder import FolderStore


@pytest.fixture
def termination_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "termination-log"
    monkeypatch.setenv(ENV_TERMINATION_LOG, str(path))
    return path


def sockets_of(tmp_path: Path, sandboxes: int) -> Path:
    for index in range(sandboxes):
        (tmp_path / "sockets" / str(index)).mkdir(parents=True)
    return tmp_path / "sockets"


def test_rows_that_were_deleted_after_planning_are_said_with_object_and_fix(
    tmp_path: Path, termination_log: Path
) -> None:
    store = FolderStore(tmp_path / "store")

    def verb() -> BatchMessage:
        read_batch_rows(store, "p0", number=0, offset=0, length=10)
        raise AssertionError("there are no rows")

    code = batch_ending(verb, sockets_of(tmp_path, 5))
    message = BatchMessage.parse(termination_log.read_text())
    assert (code, message.reason, message.of_store) == (ExitCode.BLOCKED, "PlanBroken", True)
    assert f"{store.place}/plans/p0/rows.jsonl is gone; planning again makes it anew" in message.message


def test_a_network_that_nobody_enforces_blocks_the_batch_with_its_own_reason(
    tmp_path: Path, termination_log: Path
) -> None:
    def verb() -> BatchMessage:
        raise NetworkNotEnforced("the API server at 10.96.0.1:443 still answers after 30 s")

    assert batch_ending(verb, sockets_of(tmp_path, 100)) == ExitCode.BLOCKED
    message = BatchMessage.parse(termination_log.read_text())
    assert (message.reason, message.of_store) == ("NetworkNotEnforced", False)
    assert message.message.startswith("the API server at")


def test_words_of_a_fault_of_ours_stay_in_the_log(tmp_path: Path, termination_log: Path) -> None:
    def verb() -> BatchMessage:
        raise KeyError("a prompt")

    assert batch_ending(verb, sockets_of(tmp_path, 1)) == ExitCode.INTERNAL
    message = BatchMessage.parse(termination_log.read_text())
    assert (message.reason, message.message) == ("Internal", "KeyError")
