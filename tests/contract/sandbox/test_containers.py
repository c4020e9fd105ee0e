"""Sandboxes in containers of podman: any image, however bare (field reports c06 to c09)."""

import asyncio
import os
import tarfile
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests.contract.engine import arguments_needed, engine_call, require_engine

from batchrun_api.image_names import whole_name
from batchrun_api.messages import SandboxSignal
from batchrun_api.outcomes import Outcome, Reason
from batchrun_api.spec.sandbox import Sandbox
from batchrun_runner.records import Collect, PromptRow, RowFile, Verification, Verify
from batchrun_runner.sandbox.backend import SandboxRequest
from batchrun_runner.sandbox.collecting import collect
from batchrun_runner.sandbox.container import ContainerBackend, find_engine
from batchrun_runner.sandbox.errors import ErrorKind, SandboxError, SandboxLost, SandboxUnavailable, SetupFailed
from batchrun_runner.sandbox.preparing import prepare
from batchrun_runner.sandbox.restoring import put_back
from batchrun_runner.sandbox.verifying import verify

IMAGE = f"localhost/batchrun-test-{os.getpid()}"
"""Of this process alone: test workers run side by side."""
APPLETS = ("sh", "cat", "echo", "id", "env", "kill", "sleep", "head", "tail", "touch", "pwd")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """`shell` has busybox, an entrypoint that fails, a user without a name and a folder that is in no layer;
    `bare` has one file and nothing else."""
    busybox = require_engine()
    work = tmp_path_factory.mktemp("images")
    (work / "note").write_text("from the image\n")
    changes = ['ENTRYPOINT ["/bin/false"]', "USER 65532", "WORKDIR /home/app", "ENV COLOUR=blue"]
    make_image(work, "shell", {"bin/busybox": busybox, "note": work / "note"}, changes, APPLETS)
    make_image(work, "bare", {"note": work / "note"}, [], ())
    yield
    engine_call("rmi", "--force", f"{IMAGE}:shell", f"{IMAGE}:bare")


def make_image(work: Path, tag: str, files: dict[str, Path], changes: list[str], applets: tuple[str, ...]) -> None:
    archive = work / f"{tag}.tar"
    with tarfile.open(archive, "w") as tar:
        for name, source in files.items():
            tar.add(source, name)
        for applet in applets:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
    options = [f"--change={change}" for change in changes]
    made = engine_call("import", *options, str(archive), f"{IMAGE}:{tag}")
    assert made.returncode == 0, made.stderr


@pytest.fixture(scope="module")
def machine_arguments(images: None) -> tuple[str, ...]:
    """What podman needs on this machine; nothing on a usual one."""
    return arguments_needed(f"{IMAGE}:shell")


@pytest.fixture
async def backend(sandboxd: Path, machine_arguments: tuple[str, ...]) -> AsyncIterator[ContainerBackend]:
    made = ContainerBackend(
        str(find_engine()), default_image=f"{IMAGE}:shell", helper=sandboxd, extra_arguments=machine_arguments
    )
    yield made
    await made.close()
    for tag in ("shell", "bare"):
        assert engine_call("ps", "--all", "--quiet", f"--filter=ancestor={IMAGE}:{tag}").stdout == ""


async def test_the_images_own_files_user_and_folder_are_used_and_its_entrypoint_is_not(
    backend: ContainerBackend,
) -> None:
    lease = await backend.open(SandboxRequest(0))
    hello = lease.sandbox.hello

    done = await lease.sandbox.exec(
        "cat /note; id -u; pwd; echo $COLOUR; touch $HOME/f && echo home",
        cwd=lease.cwd,
        timeout_seconds=10,
        limit_bytes=1000,
    )

    assert (hello.pid1, hello.uid, hello.user, hello.shell) == (True, 65532, "", "/bin/sh")
    assert done.output.head.split("\n")[:-1] == ["from the image", "65532", "/home/app", "blue", "home"]
    await lease.finish(Outcome.COMPLETED)


async def test_an_image_of_nothing_has_file_tools_and_says_what_is_missing(backend: ContainerBackend) -> None:
    lease = await backend.open(SandboxRequest(0, image=f"{IMAGE}:bare", cwd="/data/none"))

    await lease.sandbox.write_file("a/b", b"x", cwd=lease.cwd)
    found = await lease.sandbox.read_bytes("/note", cwd=lease.cwd, offset_bytes=0, limit_bytes=100)
    with pytest.raises(SandboxError, match="neither bash nor sh") as raised:
        await lease.sandbox.exec("true", cwd=lease.cwd, timeout_seconds=1, limit_bytes=1000)

    assert lease.cwd == "/data/none"
    assert found.data == b"from the image\n"
    assert raised.value.kind is ErrorKind.NO_SHELL
    await lease.finish(Outcome.COMPLETED)


async def test_a_row_brings_files_a_setup_and_a_verifier_that_the_agents_processes_do_not_live_to_see(
    backend: ContainerBackend,
) -> None:
    lease = await backend.open(SandboxRequest(0))
    row = PromptRow(
        0, "k-0-0", "p", files=(RowFile("given/a", text="a\n"),), setup="cat given/a > ready", env={"B": "b"}
    )
    await prepare(lease, row, 10)
    await lease.sandbox.start("while :; do touch alive; sleep 0.01; done", cwd=lease.cwd)
    judged = Verify(
        "cat ready hidden; rm -f alive; sleep 0.2; test ! -e alive && echo $B && echo 0.5 > $BATCHRUN_REWARD_FILE"
    )

    verdict = await verify(lease, replace(judged, files=(RowFile("hidden", base64="aAo="),)), row.env, 10)

    assert verdict == Verification(0.5, ran=True, output="a\nh\nb\n")
    assert [process.running for process in await lease.sandbox.list_processes()] == [False]
    await lease.finish(Outcome.COMPLETED)


async def test_an_image_without_a_shell_can_run_neither_setup_nor_verifier_and_says_so(
    backend: ContainerBackend,
) -> None:
    lease = await backend.open(SandboxRequest(0, image=f"{IMAGE}:bare"))

    with pytest.raises(SetupFailed, match="neither bash nor sh"):
        await prepare(lease, PromptRow(0, "k-0-0", "p", setup="true"), 10)
    verdict = await verify(lease, Verify("true"), {}, 10)

    assert (verdict.reward, verdict.ran) == (None, False)
    assert "neither bash nor sh" in verdict.fault
    await lease.finish(Outcome.COMPLETED)


async def test_killing_everybody_and_everything_harms_only_the_command(backend: ContainerBackend) -> None:
    one, two = await asyncio.gather(backend.open(SandboxRequest(0)), backend.open(SandboxRequest(1)))
    assert one.sandbox.hello.pid1, "this would kill the machine's processes"

    for command in ("kill -9 -1", "kill -9 1", "sleep 300 & kill -TERM -1; exit 3"):
        await one.sandbox.exec(command, cwd=one.cwd, timeout_seconds=10, limit_bytes=1000)

    for lease in (one, two):
        done = await lease.sandbox.exec("echo alive", cwd=lease.cwd, timeout_seconds=10, limit_bytes=1000)
        assert done.output.head == "alive\n"
        await lease.finish(Outcome.COMPLETED)


async def test_the_helper_and_its_socket_cannot_be_tampered_with(backend: ContainerBackend) -> None:
    lease = await backend.open(SandboxRequest(0))

    done = await lease.sandbox.exec(
        "echo x > /run/batchrun/bin/sandboxd; echo x > /run/batchrun/runner/done; touch /run/batchrun/runner/s.sock",
        cwd=lease.cwd, timeout_seconds=10, limit_bytes=1000,
    )  # fmt: skip

    assert done.exit_code != 0
    assert done.output.head.count("Read-only") + done.output.head.count("ermission denied") == 3
    await lease.finish(Outcome.COMPLETED)


@pytest.fixture
def users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Where the user starts batchrun; it stays as it was: podman's monitor leaves a file where it was started."""
    monkeypatch.chdir(tmp_path)
    yield
    assert list(tmp_path.iterdir()) == []


async def test_a_row_s_user_runs_its_commands_and_its_files(users_folder: None, backend: ContainerBackend) -> None:
    lease = await backend.open(SandboxRequest(0, user="1234:56"))
    assert (lease.sandbox.hello.uid, lease.sandbox.hello.gid) == (1234, 56)
    await lease.sandbox.write_file("~/mine", b"x", cwd=lease.cwd)
    done = await lease.sandbox.exec("id -u; id -g; cat ~/mine", cwd=lease.cwd, timeout_seconds=20, limit_bytes=4096)
    assert done.output.joined.split() == ["1234", "56", "x"]
    await lease.finish(Outcome.COMPLETED)


class Kept(dict[str, bytes]):
    """What was brought out, in memory; the output under an empty name."""

    async def keep(self, path: str, data: bytes) -> str:
        self[path] = data
        return ""

    async def keep_output(self, data: bytes) -> None:
        self[""] = data


@pytest.mark.parametrize("user", ["", "1234:56", "0"])
async def test_results_are_brought_out_of_one_container_and_put_back_into_another(
    users_folder: None, backend: ContainerBackend, user: str
) -> None:
    request = SandboxRequest(0, user=user)
    first = await backend.open(request)
    work = "printf '#!/bin/sh\\necho 42\\n' > ~/it; chmod 755 ~/it; echo $HOME"
    done = await first.sandbox.exec(work, cwd=first.cwd, timeout_seconds=20, limit_bytes=4096)
    home = done.output.joined.strip()
    kept = Kept()
    found = await collect(first, Collect((f"{home}/it",), "id -u"), {}, 20, kept)
    await first.finish(Outcome.COMPLETED)
    assert found.left_out == ()
    assert kept[""].decode().strip() == (user.partition(":")[0] or "65532")

    second = await backend.open(request)
    (file,) = found.files
    await put_back(second, file.path, kept[file.path], file.mode)
    verdict = await verify(second, Verify(f"[ $({home}/it) = 42 ]"), {}, 20)
    await second.finish(Outcome.COMPLETED)
    assert verdict.reward == 1.0


async def test_a_memory_limit_kills_the_command_and_is_named(users_folder: None, backend: ContainerBackend) -> None:
    lease = await backend.open(SandboxRequest(0, memory="64Mi"))

    done = await lease.sandbox.exec(
        "head -c 500m /dev/zero | tail", cwd=lease.cwd, timeout_seconds=30, limit_bytes=1000
    )

    assert done.oom_kills >= 1
    assert lease.sandbox.hello.memory_limit_bytes == 64 * 2**20
    await lease.finish(Outcome.COMPLETED)


async def test_c09_a_container_that_is_killed_says_so_and_is_never_continued(backend: ContainerBackend) -> None:
    lease = await backend.open(SandboxRequest(0))
    (name,) = backend._open
    waiting = asyncio.create_task(lease.sandbox.exec("sleep 60", cwd=lease.cwd, timeout_seconds=60, limit_bytes=1000))
    killed = await asyncio.to_thread(engine_call, "kill", "--signal=KILL", name)
    assert killed.returncode == 0, killed.stderr
    with pytest.raises(SandboxLost):
        await waiting

    cause = await lease.cause_of_loss()
    assert cause == SandboxSignal(reason=Reason.SANDBOX_LOST, message="its container ended with exit code 137")
    with pytest.raises(SandboxLost):
        await lease.sandbox.exec("cat file", cwd=lease.cwd, timeout_seconds=10, limit_bytes=1000)
    await lease.finish(Outcome.FAILED, Reason.SANDBOX_LOST)


async def test_c09_a_container_that_is_killed_for_memory_names_the_limit(backend: ContainerBackend) -> None:
    """On cgroup v2 the kernel kills the whole container with the command; on v1 we do that part of it."""
    lease = await backend.open(SandboxRequest(0, memory="64Mi"))
    (name,) = backend._open
    with suppress(SandboxLost):
        done = await lease.sandbox.exec(
            "head -c 500m /dev/zero | tail", cwd=lease.cwd, timeout_seconds=30, limit_bytes=1000
        )
        assert done.oom_kills >= 1
        await asyncio.to_thread(engine_call, "kill", "--signal=KILL", name)

    cause = await lease.cause_of_loss()
    message = "OOMKilled, exit code 137, memory limit 64Mi"
    assert cause == SandboxSignal(reason=Reason.OOM_KILLED, message=message)
    await lease.finish(Outcome.FAILED, Reason.OOM_KILLED)


async def test_a_short_name_is_that_of_a_local_image_before_it_is_one_of_docker_hub(backend: ContainerBackend) -> None:
    lease = await backend.open(SandboxRequest(0, image=f"{IMAGE.removeprefix('localhost/')}:shell"))
    assert lease.sandbox.hello.uid == 65532
    await lease.finish(Outcome.COMPLETED)

    for short, whole in (
        ("batchrun-none/none:1", "docker.io/batchrun-none/none:1"),
        ("batchrun-none:1", "docker.io/library/batchrun-none:1"),
    ):
        with pytest.raises(SandboxUnavailable) as raised:
            await backend.open(SandboxRequest(0, image=short))
        assert raised.value.detail.startswith(f"{whole} cannot be pulled: ")
        assert "short-name" not in raised.value.detail
        assert "\n" not in raised.value.detail
        assert len(raised.value.detail) < 400


@pytest.mark.parametrize(
    ("image", "whole"),
    [
        ("python", "docker.io/library/python"),
        ("python:3", "docker.io/library/python:3"),
        ("python@sha256:0123", "docker.io/library/python@sha256:0123"),
        ("org/name:tag", "docker.io/org/name:tag"),
        ("org/deep/name", "docker.io/org/deep/name"),
        ("docker.io/org/name:tag", "docker.io/org/name:tag"),
        ("ghcr.io/org/name", "ghcr.io/org/name"),
        ("localhost/name:1", "localhost/name:1"),
        ("registry:5000/name", "registry:5000/name"),
        ("localhost:5000/name", "localhost:5000/name"),
    ],
)
def test_a_short_name_is_what_docker_makes_of_it(image: str, whole: str) -> None:
    assert whole_name(image) == whole


async def test_an_image_is_asked_for_where_the_rule_says(sandboxd: Path, machine_arguments: tuple[str, ...]) -> None:
    rules = [{"from": "ghcr.io/org/tool", "to": IMAGE}, {"from": "docker.io", "to": "localhost/batchrun-none"}]
    rewritten = Sandbox.model_validate({"imageRewrite": rules}).rewritten
    made = ContainerBackend(
        str(find_engine()),
        default_image="ghcr.io/org/tool:shell",
        rewritten=rewritten,
        helper=sandboxd,
        extra_arguments=machine_arguments,
    )
    lease = await made.open(SandboxRequest(0))
    assert lease.sandbox.hello.uid == 65532
    await lease.finish(Outcome.COMPLETED)
    with pytest.raises(SandboxUnavailable, match="localhost/batchrun-none/library/python:3 cannot be pulled: "):
        await made.open(SandboxRequest(1, image="python:3"))
    await made.close()


async def test_without_a_network_a_container_cannot_make_a_network_socket(backend: ContainerBackend) -> None:
    asked = {}
    for mode in ("Open", "Denied"):
        lease = await backend.open(SandboxRequest(0, network=mode))
        done = await lease.sandbox.exec("/bin/busybox ifconfig lo", cwd=lease.cwd, timeout_seconds=20, limit_bytes=1000)
        asked[mode] = done.output.head
        await lease.finish(Outcome.COMPLETED)
    assert "127.0.0.1" in asked["Open"]
    assert "ermission denied" in asked["Denied"]


async def test_many_lines_of_the_engine_become_one(sandboxd: Path, machine_arguments: tuple[str, ...]) -> None:
    made = ContainerBackend(
        str(find_engine()),
        default_image=f"{IMAGE}:shell",
        helper=sandboxd,
        extra_arguments=[*machine_arguments, "--no-such-option"],
    )
    with pytest.raises(SandboxUnavailable) as raised:
        await made.open(SandboxRequest(0))
    await made.close()

    assert "no-such-option" in raised.value.detail
    assert "\n" not in raised.value.detail


@pytest.mark.parametrize("image", ["localhost/batchrun-none:1", "Bad Image:Tag", "--privileged"])
async def test_an_image_that_is_not_to_be_had_fails_its_prompt_with_the_reason(
    backend: ContainerBackend, image: str
) -> None:
    with pytest.raises(SandboxUnavailable) as raised:
        await backend.open(SandboxRequest(0, image=image))

    assert raised.value.reason is Reason.IMAGE_UNAVAILABLE
    assert image in raised.value.detail
