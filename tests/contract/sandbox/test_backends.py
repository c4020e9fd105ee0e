"""Who makes sandboxes: process and pod."""

import asyncio
import os
from pathlib import Path

import pytest
from tests.contract.sandbox.support import alive, until

from batchrun_api.messages import SandboxSignal
from batchrun_api.outcomes import Outcome, Reason
from batchrun_runner.sandbox.backend import SandboxRequest
from batchrun_runner.sandbox.errors import SandboxLost, SandboxUnavailable
from batchrun_runner.sandbox.pod import PodBackend
from batchrun_runner.sandbox.process import ProcessBackend


async def output(lease_sandbox: object, command: str, cwd: str) -> str:
    done = await lease_sandbox.exec(command, cwd=cwd, timeout_seconds=10, limit_bytes=10_000)  # type: ignore[attr-defined]
    return str(done.output.head).strip()


async def test_each_prompt_has_a_process_and_a_folder_of_its_own(sandboxd: Path) -> None:
    backend = ProcessBackend(helper=sandboxd)
    leases = await asyncio.gather(*(backend.open(SandboxRequest(index)) for index in range(5)))

    boots = {await output(lease.sandbox, "echo $BATCHRUN_BOOT_ID", lease.cwd) for lease in leases}
    assert boots == {lease.sandbox.hello.boot_id for lease in leases}
    assert len({lease.cwd for lease in leases}) == len(boots) == 5

    folders = [Path(lease.cwd).parent for lease in leases]
    await asyncio.gather(*(lease.finish(Outcome.COMPLETED) for lease in leases))
    assert not any(folder.exists() for folder in folders)


async def test_no_key_of_the_user_reaches_a_command(sandboxd: Path) -> None:
    environ = {
        **os.environ,
        "OPENAI_API_KEY": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "BATCHRUN_MODEL_API_KEY": "secret",
    }
    backend = ProcessBackend(helper=sandboxd, environ=environ)
    lease = await backend.open(SandboxRequest(0))

    seen = await output(lease.sandbox, "env; cat /proc/$PPID/environ | tr '\\0' '\\n'", lease.cwd)

    assert "secret" not in seen
    assert "PATH=" in seen
    await lease.finish(Outcome.COMPLETED)


async def test_home_and_temporary_files_are_the_prompts_own(sandboxd: Path) -> None:
    lease = await ProcessBackend(helper=sandboxd).open(SandboxRequest(0))
    folder = Path(lease.cwd).parent

    seen = await output(lease.sandbox, "echo $HOME $TMPDIR; dirname $(mktemp)", lease.cwd)

    assert seen.split() == [f"{folder}/home", f"{folder}/tmp", f"{folder}/tmp"]
    await lease.finish(Outcome.COMPLETED)


async def test_a_row_with_an_image_fails_alone_in_process_mode(sandboxd: Path) -> None:
    backend = ProcessBackend(helper=sandboxd)

    with pytest.raises(
        SandboxUnavailable, match=r"process mode has no images.*: run with --sandbox container"
    ) as raised:
        await backend.open(SandboxRequest(0, image="python:3.11-slim"))

    assert raised.value.reason is Reason.IMAGE_UNAVAILABLE


async def test_a_working_directory_is_made(sandboxd: Path, tmp_path: Path) -> None:
    lease = await ProcessBackend(helper=sandboxd).open(SandboxRequest(0, cwd=str(tmp_path / "a/b")))

    assert await output(lease.sandbox, "pwd", lease.cwd) == str(tmp_path / "a/b")
    await lease.finish(Outcome.COMPLETED)


async def test_a_working_directory_that_cannot_be_made_is_named(sandboxd: Path) -> None:
    backend = ProcessBackend(helper=sandboxd)

    with pytest.raises(SandboxUnavailable, match="/dev/null/none") as raised:
        await backend.open(SandboxRequest(0, cwd="/dev/null/none"))

    assert raised.value.reason is Reason.SANDBOX_UNAVAILABLE


async def test_a_helper_that_does_not_start_is_told_in_its_words(tmp_path: Path) -> None:
    broken = tmp_path / "sandboxd"
    broken.write_text("#!/bin/sh\necho cannot do it >&2\nexit 9\n")
    broken.chmod(0o755)

    with pytest.raises(SandboxUnavailable, match="ended with 9: cannot do it"):
        await ProcessBackend(helper=broken).open(SandboxRequest(0))


async def test_closing_the_backend_ends_what_is_left(sandboxd: Path) -> None:
    backend = ProcessBackend(helper=sandboxd)
    lease = await backend.open(SandboxRequest(0))
    folder = Path(lease.cwd)
    pid = int(await output(lease.sandbox, "setsid sleep 300 & echo $!", lease.cwd))

    await backend.close()

    assert not alive(pid)
    await until(lambda: not folder.exists())


async def test_a_helper_that_was_killed_is_a_lost_sandbox(sandboxd: Path) -> None:
    lease = await ProcessBackend(helper=sandboxd).open(SandboxRequest(0))

    with pytest.raises(SandboxLost):
        await output(lease.sandbox, "kill -9 $PPID", lease.cwd)

    await lease.finish(Outcome.FAILED, Reason.SANDBOX_LOST)


class Pod:
    """Sandbox containers by hand: sandboxd processes on the sockets of a pod."""

    def __init__(self, sandboxd: Path, root: Path) -> None:
        self._sandboxd = sandboxd
        self.root = root
        self._started: list[asyncio.subprocess.Process] = []

    async def boot(self, index: int, *options: str) -> asyncio.subprocess.Process:
        socket = self.root / str(index) / "s.sock"
        process = await asyncio.create_subprocess_exec(
            str(self._sandboxd), "serve", "--socket", str(socket), "--shared-files", *options,
            env={"PATH": os.environ["PATH"], "HOME": str(self.root)},
        )  # fmt: skip
        self._started.append(process)
        return process

    async def stop(self) -> None:
        for process in self._started:
            if process.returncode is None:
                process.kill()
            await process.wait()


@pytest.fixture
async def pod(sandboxd: Path, folder: Path):  # type: ignore[no-untyped-def]
    made = Pod(sandboxd, folder)
    yield made
    await made.stop()


async def test_the_sandboxes_of_a_pod_come_in_any_order(pod: Pod) -> None:
    backend = PodBackend(3, deadline_seconds=10, root=pod.root)
    processes = [await pod.boot(index) for index in (2, 0, 1)]
    leases = [await backend.open(SandboxRequest(index)) for index in range(3)]

    assert len({lease.sandbox.hello.boot_id for lease in leases}) == 3

    await asyncio.gather(*(lease.finish(Outcome.COMPLETED) for lease in leases))
    assert [await process.wait() for process in processes] == [0, 0, 0]
    await backend.close()


async def test_a_sandbox_that_never_comes_fails_its_prompt_with_the_operators_words(pod: Pod) -> None:
    signal = SandboxSignal(reason=Reason.IMAGE_UNAVAILABLE, message="manifest unknown")
    backend = PodBackend(1, deadline_seconds=0.2, root=pod.root, signal_of=lambda _index: signal)

    with pytest.raises(SandboxUnavailable, match="manifest unknown") as raised:
        await backend.open(SandboxRequest(0))

    assert raised.value.reason is Reason.IMAGE_UNAVAILABLE
    late = await pod.boot(0)
    assert await late.wait() == 0
    await backend.close()


async def test_a_sandbox_that_can_never_be_made_fails_its_prompt_as_soon_as_the_operator_knows(pod: Pod) -> None:
    said: list[SandboxSignal] = []
    backend = PodBackend(1, deadline_seconds=60, root=pod.root, signal_of=lambda _index: said[-1] if said else None)
    opening = asyncio.create_task(backend.open(SandboxRequest(0)))
    await until((pod.root / "0/s.sock").exists)
    said.append(SandboxSignal(reason=Reason.CREATE_CONTAINER_ERROR, message="no such device"))
    await asyncio.wait([opening], timeout=0.6)
    assert not opening.done(), "it may still come"

    said.append(said[0].model_copy(update={"hopeless": True}))
    with pytest.raises(SandboxUnavailable, match="no such device") as raised:
        await opening

    assert raised.value.reason is Reason.CREATE_CONTAINER_ERROR
    assert backend.is_retired(0)
    await backend.close()


async def test_an_image_that_gave_way_is_reported_with_the_operators_reason(pod: Pod, tmp_path: Path) -> None:
    (tmp_path / "marker").touch()
    words = SandboxSignal(reason=Reason.CREATE_CONTAINER_ERROR, message="unable to find user bob")
    asked = 0

    def later(_index: int) -> SandboxSignal | None:
        nonlocal asked
        asked += 1
        return words if asked > 3 else None  # the volume lags behind the container

    backend = PodBackend(1, deadline_seconds=10, root=pod.root, signal_of=later)
    process = await pod.boot(0, "--runner-image-marker", str(tmp_path / "marker"))

    with pytest.raises(SandboxUnavailable, match="unable to find user bob") as raised:
        await backend.open(SandboxRequest(0))

    assert raised.value.reason is Reason.CREATE_CONTAINER_ERROR
    assert await process.wait() == 0
    await backend.close()


async def test_c09_the_cause_of_a_loss_is_the_operators_and_is_waited_for_only_so_long(pod: Pod) -> None:
    killed = SandboxSignal(reason=Reason.OOM_KILLED, message="OOMKilled, exit code 137, memory limit 1Gi")
    said: list[SandboxSignal] = []
    backend = PodBackend(
        1, deadline_seconds=10, root=pod.root, signal_of=lambda _index: said[-1] if said else None, cause_seconds=0.5
    )
    process = await pod.boot(0)
    lease = await backend.open(SandboxRequest(0))
    process.kill()
    with pytest.raises(SandboxLost):
        await output(lease.sandbox, "true", "/")

    assert await lease.cause_of_loss() is None
    said.append(killed)
    assert await lease.cause_of_loss() == killed
    await backend.close()


async def test_a_patched_image_is_reported_as_unavailable(pod: Pod, tmp_path: Path) -> None:
    (tmp_path / "marker").touch()
    backend = PodBackend(1, deadline_seconds=10, root=pod.root)
    process = await pod.boot(0, "--runner-image-marker", str(tmp_path / "marker"))

    with pytest.raises(SandboxUnavailable) as raised:
        await backend.open(SandboxRequest(0))

    assert raised.value.reason is Reason.IMAGE_UNAVAILABLE
    assert await process.wait() == 0
    await backend.close()


async def test_an_idle_sandbox_may_restart_before_its_prompt(pod: Pod) -> None:
    backend = PodBackend(1, deadline_seconds=10, root=pod.root)
    first = await pod.boot(0)
    await until(lambda: backend._slots[0]._connection is not None)
    first.kill()
    await first.wait()

    await pod.boot(0)
    lease = await backend.open(SandboxRequest(0))

    assert await output(lease.sandbox, "echo alive", "/") == "alive"
    await lease.finish(Outcome.COMPLETED)
    await backend.close()


async def test_a_sandbox_that_comes_back_in_the_middle_is_never_continued(pod: Pod) -> None:
    backend = PodBackend(1, deadline_seconds=10, root=pod.root)
    first = await pod.boot(0)
    lease = await backend.open(SandboxRequest(0))
    first.kill()
    await first.wait()
    second = await pod.boot(0)

    with pytest.raises(SandboxLost):
        await output(lease.sandbox, "cat file", "/")
    assert second.returncode is None

    await lease.finish(Outcome.FAILED, Reason.SANDBOX_LOST)
    assert await second.wait() == 0
    assert (pod.root / "0/done").read_text() == "failed/SandboxLost"
    await backend.close()


async def test_a_prompt_that_was_done_before_retires_its_sandbox(pod: Pod) -> None:
    backend = PodBackend(2, deadline_seconds=10, root=pod.root)
    waiting = await pod.boot(0)
    await until(lambda: backend._slots[0]._connection is not None)

    await backend.retire(0, Outcome.COMPLETED)
    await backend.retire(1, Outcome.COMPLETED)

    assert await waiting.wait() in {0, 3}  # not PID 1 here: it may see the end before the file
    assert await (await pod.boot(1)).wait() == 0
    await backend.close()
