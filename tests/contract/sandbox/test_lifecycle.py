"""From the first connection to the exit code."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from tests.contract.sandbox.conftest import RawRunner, Serve
from tests.contract.sandbox.support import status_kib

from batchrun_api.outcomes import Outcome

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "protocol"
EXITS: dict[str, int] = json.loads((GOLDEN / "constants.json").read_text())["exit_codes"]
EXEC = {"command": "true", "cwd": "/", "env": {}, "timeout_ms": 10_000, "limit_bytes": 1000}


def test_a_sandbox_told_to_end_leaves_its_outcome_and_exits_0(
    raw_runner: RawRunner, serve: Serve, folder: Path
) -> None:
    log = folder / "termination-log"
    log.write_text("a command was here")
    process = serve("--termination-log", str(log))
    raw_runner.accept()
    raw_runner.call("exec", EXEC)

    answer = raw_runner.call("end", {"outcome": "failed", "reason": "ImageUnavailable"})

    assert answer == {"id": 1, "result": {}}
    assert process.wait(10) == EXITS["ended"]
    assert log.read_text() == "failed/ImageUnavailable"


def test_kill_all_ends_every_process_also_those_of_requests_that_came_just_before_it(
    raw_runner: RawRunner, serve: Serve
) -> None:
    process = serve("--shared-files")
    raw_runner.accept()
    hidden = "setsid setsid sleep 300 >/dev/null 2>&1 & exec sleep 300"
    raw_runner.send({"id": 1, "op": "exec", "args": {**EXEC, "command": hidden}})
    raw_runner.send({"id": 2, "op": "start", "args": {"command": hidden, "cwd": "/", "env": {}}})
    raw_runner.send({"id": 3, "op": "kill_all", "args": {}})

    answers = {answer["id"]: answer for answer in (raw_runner.receive() for _ in range(3))}

    assert answers[3] == {"id": 3, "result": {}}
    assert answers[1]["result"]["signal"] == "SIGKILL"
    assert Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text() == ""
    assert raw_runner.call("exec", EXEC)["result"]["exit_code"] == 0


def test_a_termination_message_stays_below_100_bytes(raw_runner: RawRunner, serve: Serve, folder: Path) -> None:
    log = folder / "termination-log"
    log.touch()
    process = serve("--termination-log", str(log))
    raw_runner.accept()

    raw_runner.call("end", {"outcome": "failed", "reason": "é" * 100})

    assert process.wait(10) == 0
    assert log.read_text() == "failed/" + "é" * 46


def test_a_fifo_as_termination_log_does_not_hold_the_end(raw_runner: RawRunner, serve: Serve, folder: Path) -> None:
    log = folder / "termination-log"
    subprocess.run(["mkfifo", str(log)], check=True)
    process = serve("--termination-log", str(log))
    raw_runner.accept()

    raw_runner.call("end", {"outcome": "completed", "reason": ""})

    assert process.wait(10) == EXITS["ended"]


def test_an_end_without_an_outcome_is_refused(raw_runner: RawRunner, serve: Serve) -> None:
    serve()
    raw_runner.accept()

    assert raw_runner.call("end", {"outcome": "", "reason": ""})["error"]["kind"] == "invalid_argument"
    assert raw_runner.call("ping", {}) == {"id": 1, "result": {}}


def test_a_used_sandbox_whose_runner_is_gone_ends_to_come_back_fresh(raw_runner: RawRunner, serve: Serve) -> None:
    process = serve(pid1=True)
    raw_runner.accept()
    raw_runner.call("exec", {**EXEC, "command": "sleep 300 &"})

    raw_runner.hang_up()

    assert process.wait(10) == EXITS["runner_gone"]


def test_an_unused_sandbox_whose_runner_is_gone_waits_for_the_next(raw_runner: RawRunner, serve: Serve) -> None:
    process = serve("--shared-files", pid1=True)
    first = raw_runner.accept()
    raw_runner.call("configure", {"max_processes": 10})
    raw_runner.hang_up()

    second = raw_runner.accept()

    assert second["boot_id"] == first["boot_id"]
    assert process.poll() is None
    assert raw_runner.call("exec", EXEC)["result"]["exit_code"] == 0


def test_sigterm_leaves_a_connected_sandbox_to_its_runner_and_then_it_goes_away(
    raw_runner: RawRunner, serve: Serve
) -> None:
    process = serve(pid1=True)
    raw_runner.accept()

    os.kill(inner_pid(process), signal.SIGTERM)

    assert raw_runner.call("ping", {}) == {"id": 1, "result": {}}
    raw_runner.close()
    assert process.wait(10) == EXITS["runner_gone"]


def test_an_unused_sandbox_without_a_runner_does_not_hold_up_the_end_of_its_pod(
    raw_runner: RawRunner, serve: Serve, folder: Path
) -> None:
    process = serve(pid1=True)
    raw_runner.accept()
    (folder / "s.sock").unlink()
    raw_runner.hang_up()

    os.kill(inner_pid(process), signal.SIGTERM)

    assert process.wait(10) == EXITS["runner_gone"]


def inner_pid(process: subprocess.Popen[bytes]) -> int:
    """sandboxd's own process, below the one that made its namespace."""
    return int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text())


def test_a_local_sandbox_never_waits_for_another_runner(raw_runner: RawRunner, serve: Serve) -> None:
    process = serve()
    raw_runner.accept()

    raw_runner.hang_up()

    assert process.wait(10) == EXITS["runner_gone"]


def test_a_sandbox_that_comes_back_after_its_prompt_goes_away_with_the_outcome(serve: Serve, folder: Path) -> None:
    log = folder / "termination-log"
    log.touch()
    (folder / "done").write_text("completed")

    process = serve("--termination-log", str(log), pid1=True)

    assert process.wait(10) == EXITS["ended"]
    assert log.read_text() == "completed"


def test_an_unused_sandbox_that_finds_the_prompt_over_goes_away(
    raw_runner: RawRunner, serve: Serve, folder: Path
) -> None:
    process = serve("--shared-files", pid1=True)
    raw_runner.accept()
    (folder / "done").write_text("failed/LostAttempts")

    raw_runner.hang_up()

    assert process.wait(10) == EXITS["ended"]


@pytest.mark.parametrize(
    "case", json.loads((GOLDEN / "frames.json").read_text())["invalid"], ids=lambda case: case["name"]
)
def test_what_is_no_frame_ends_the_sandbox(case: dict[str, str], raw_runner: RawRunner, serve: Serve) -> None:
    process = serve()
    raw_runner.accept()

    raw_runner.send_bytes(bytes.fromhex(case["hex"]))
    raw_runner.hang_up()

    assert process.wait(10) == EXITS["protocol"]


def test_a_frame_that_is_no_request_ends_the_sandbox(raw_runner: RawRunner, serve: Serve) -> None:
    process = serve()
    raw_runner.accept()

    raw_runner.send_bytes((4).to_bytes(4) + b"[1]]")

    assert process.wait(10) == EXITS["protocol"]


def test_a_sandbox_that_waits_for_its_prompt_takes_less_than_8_mb(raw_runner: RawRunner, serve: Serve) -> None:
    process = serve("--shared-files")
    raw_runner.accept()
    raw_runner.call("ping", {})

    assert status_kib(process.pid, "VmHWM") < 8_000_000 / 1024


def test_an_unknown_operation_is_an_answer(raw_runner: RawRunner, serve: Serve) -> None:
    serve()
    raw_runner.accept()

    assert raw_runner.call("fly", {})["error"]["kind"] == "unknown_operation"


def test_answers_come_as_they_are_ready(raw_runner: RawRunner, serve: Serve) -> None:
    serve("--shared-files")
    raw_runner.accept()

    raw_runner.send({"id": 1, "op": "exec", "args": {**EXEC, "command": "sleep 0.5"}})
    raw_runner.send({"id": 2, "op": "exec", "args": EXEC})

    assert [raw_runner.receive()["id"], raw_runner.receive()["id"]] == [2, 1]


@pytest.mark.parametrize(
    ("env", "path"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "x"}, None),
        ({"AWS_WEB_IDENTITY_TOKEN_FILE": "/x"}, None),
        ({"GOOGLE_APPLICATION_CREDENTIALS": "/x"}, None),
        ({}, "var/run/secrets/kubernetes.io/serviceaccount/token"),
        ({}, "var/run/secrets/eks.amazonaws.com/serviceaccount/token"),
        ({}, "run/secrets/azure/tokens/azure-identity-token"),
    ],
)
def test_a_sandbox_that_sees_an_identity_refuses_to_serve(
    env: dict[str, str], path: str | None, raw_runner: RawRunner, serve: Serve, tmp_path: Path
) -> None:
    if path:
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text("secret")
    process = serve("--root", str(tmp_path), env=env)

    hello = raw_runner.accept()

    assert hello["refused"] == "IdentityTokenPresent"
    assert hello["identity_tokens"] == ([f"/{path}"] if path else [f"env:{name}" for name in env])
    for op, args in [("exec", EXEC), ("read_bytes", {"path": "/x", "cwd": "/", "offset_bytes": 0, "limit_bytes": 1})]:
        assert raw_runner.call(op, args)["error"]["kind"] == "refused"
    raw_runner.call("end", {"outcome": Outcome.FAILED, "reason": "IdentityTokenPresent"})
    assert process.wait(10) == EXITS["ended"]


def test_the_runner_image_is_recognised_by_its_marker(raw_runner: RawRunner, serve: Serve, tmp_path: Path) -> None:
    marker = tmp_path / "runner-image"
    marker.touch()
    serve("--shared-files", "--runner-image-marker", str(marker))

    assert raw_runner.accept()["runner_image"] is True


def test_a_place_without_home_or_shell_says_so(raw_runner: RawRunner, sandboxd: Path, folder: Path) -> None:
    """An image of nothing but the helper: no shell, no passwd entry, no HOME, no /tmp (c08)."""
    root = folder / "root"
    for name in ("run", "work", "dev", "scratch", "proc"):
        (root / name).mkdir(parents=True)
    (root / "dev/null").touch()
    shutil.copy(sandboxd, root / "sandboxd")
    socket = root / "run/s.sock"
    socket.hardlink_to(folder / "s.sock")
    chroot = shutil.which("chroot", path="/usr/sbin:/usr/bin:/sbin:/bin") or "chroot"
    command = ["unshare", "--pid", "--fork", "--kill-child", chroot, "--userspec=65532:65532", str(root)]
    (root / "scratch").chmod(0o777)
    (folder / "s.sock").chmod(0o666)
    process = subprocess.Popen(
        [*command, "/sandboxd", "serve", "--socket", "/run/s.sock", "--scratch", "/scratch"], env={}
    )

    hello = raw_runner.accept()

    assert (hello["shell"], hello["user"], hello["uid"], hello["pid1"]) == ("", "", 65532, True)
    assert hello["home"] == f"/scratch/.batchrun-{hello['boot_id'][:8]}/home"
    assert raw_runner.call("exec", EXEC)["error"]["kind"] == "no_shell"
    written = raw_runner.call("write", {"path": "~/f", "cwd": "/", "data": "eA==", "mode": 0})
    assert written["result"]["path"] == f"{hello['home']}/f"
    assert (
        raw_runner.call("write", {"path": "/f", "cwd": "/", "data": "eA==", "mode": 0})["error"]["kind"]
        == "permission_denied"
    )
    raw_runner.call("end", {"outcome": "completed", "reason": ""})
    assert process.wait(10) == 0


def test_install_copies_the_helper_and_files_beside_it(sandboxd: Path, tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n")
    (tmp_path / "bin").mkdir()

    subprocess.run([str(sandboxd), "install", str(tmp_path / "bin"), "--copy", str(tmp_path / "hosts")], check=True)

    assert sorted(path.name for path in (tmp_path / "bin").iterdir()) == ["hosts", "sandboxd"]
    assert (tmp_path / "bin/sandboxd").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "bin/sandboxd").read_bytes() == sandboxd.read_bytes()


@pytest.mark.parametrize("arguments", [[], ["fly"], ["serve"], ["serve", "--socket", "/x", "more"], ["install"]])
def test_a_wrong_command_line_says_how_it_is_used(sandboxd: Path, arguments: list[str]) -> None:
    done = subprocess.run([str(sandboxd), *arguments], capture_output=True, text=True, check=False)

    assert done.returncode == EXITS["usage"]
    assert "usage" in done.stderr
