"""`sandbox.network.mode: Denied`: no command can make a network socket, whoever it is and whatever door it tries."""

import json
import os
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.contract.sandbox.conftest import RawRunner, Serve
from tests.network_doors import DOORS, REFUSED, STILL_WORK

from batchrun_api.outcomes import Outcome
from batchrun_runner.sandbox.backend import SandboxLease, SandboxRequest
from batchrun_runner.sandbox.interface import Sandbox
from batchrun_runner.sandbox.launched import Launched
from batchrun_runner.sandbox.process import ProcessBackend

UNPRIVILEGED = ["setpriv", "--reuid=65532", "--regid=65532", "--clear-groups"]
USERS = {
    "as the user of the tests": [],
    "as root without capabilities": ["setpriv", "--bounding-set=-all", "--inh-caps=-all"],
    "as another user": UNPRIVILEGED,
    "as another user without new privileges": [*UNPRIVILEGED, "--no-new-privs"],
}


async def tried(sandbox: Sandbox, prefix: str = "") -> dict[str, str]:
    command = f"{prefix} python3 - <<'PROGRAM'\n{DOORS}\nPROGRAM"
    done = await sandbox.exec(command, cwd="/", timeout_seconds=20, limit_bytes=20_000)
    assert done.exit_code == 0, done.output
    found: dict[str, str] = json.loads(done.output.head)
    return found


def assert_all_shut(found: dict[str, str]) -> None:
    assert {name: found[name] for name in REFUSED} == dict.fromkeys(REFUSED, "EACCES")
    assert {name: found[name] for name in STILL_WORK} == dict.fromkeys(STILL_WORK, "made")
    assert found.get("x32", "ENOSYS") == "ENOSYS"
    # A socketcall that is let in answers EFAULT here.
    assert {found.get("i386 socket", "EACCES"), found.get("i386 socketcall", "EACCES")} == {"EACCES"}
    assert found.get("i386 unix", "made") == "made"


@pytest.fixture
async def denied(sandboxd: Path) -> AsyncIterator[SandboxLease]:
    backend = ProcessBackend(helper=sandboxd)
    opened = await backend.open(SandboxRequest(index=0, network="Denied"))
    yield opened
    await opened.finish(Outcome.COMPLETED)
    await backend.close()


@pytest.fixture
def reachable(sandboxd: Path, folder: Path) -> Path:
    """The helper in a folder that any user may write."""
    folder.chmod(0o777)
    return Path(shutil.copy(sandboxd, folder / "sandboxd"))


async def test_no_door_to_a_network_socket_is_open(denied: SandboxLease) -> None:
    assert_all_shut(await tried(denied.sandbox))
    assert_all_shut(await tried(denied.sandbox, "setsid"))


async def test_the_same_doors_are_open_without_the_mode(lease: SandboxLease) -> None:
    found = await tried(lease.sandbox)
    assert {found["AF_INET"], found["AF_NETLINK"], found["thread"], *(found[name] for name in STILL_WORK)} == {"made"}


@pytest.mark.parametrize("user", USERS)
async def test_it_needs_no_capability_and_no_user_is_above_it(reachable: Path, folder: Path, user: str) -> None:
    if USERS[user] and (os.geteuid() != 0 or shutil.which("setpriv") is None):
        pytest.skip("another user needs root and setpriv")
    command = [*USERS[user], str(reachable), "serve", "--socket", str(folder / "s.sock"), "--once", "--shared-files"]
    launched = Launched(folder, command, {"PATH": os.environ["PATH"], "HOME": str(folder)}, folder)
    connection = await launched.connect(10)
    try:
        await connection.configure(max_processes=0, network="Denied")
        assert_all_shut(await tried(connection))
    finally:
        await launched.stop()


async def test_background_processes_have_none_either(denied: SandboxLease) -> None:
    started = await denied.sandbox.start("python3 -c 'import socket; socket.socket()'", cwd="/")
    polled = await denied.sandbox.poll(started.process_id, from_byte=0, limit_bytes=10_000, timeout_seconds=20)
    assert "PermissionError" in polled.output.head


async def test_a_server_that_listens_on_this_machine_is_not_reached_and_none_can_listen(denied: SandboxLease) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for action in (f"create_connection(('127.0.0.1', {port}))", "create_server(('127.0.0.1', 0))"):
            command = f'python3 -c "import socket; socket.{action}"'
            done = await denied.sandbox.exec(command, cwd="/", timeout_seconds=20, limit_bytes=10_000)
            assert done.exit_code == 1
            assert "PermissionError" in done.output.head


async def test_commands_run_and_end_as_ever(denied: SandboxLease) -> None:
    done = await denied.sandbox.exec("sleep 300", cwd="/", timeout_seconds=0.2, limit_bytes=1000)
    assert done.timed_out
    done = await denied.sandbox.exec("echo $(seq 3) | cat; exit 7", cwd="/", timeout_seconds=20, limit_bytes=1000)
    assert (done.output.head, done.exit_code) == ("1 2 3\n", 7)


def test_a_mode_that_is_not_known_is_refused_and_a_denied_one_is_not_taken_back(
    raw_runner: RawRunner, serve: Serve
) -> None:
    serve("--once", "--shared-files")
    raw_runner.accept()
    answer: dict[str, Any] = raw_runner.call("configure", {"network": "InternetOnly"})
    assert answer["error"]["kind"] == "invalid_argument"
    assert "network must be Open or Denied" in answer["error"]["message"]
    assert raw_runner.call("configure", {"network": "Denied"})["result"] == {}
    assert raw_runner.call("configure", {"network": "Open"})["result"] == {}
    command = "python3 -c 'import socket; socket.socket()'"
    arguments = {"command": command, "cwd": "/", "env": {}, "timeout_ms": 20_000, "limit_bytes": 10_000}
    result = raw_runner.call("exec", arguments)["result"]
    assert "PermissionError" in result["output"]["head"]
