"""`ContainerBackend`: one container of podman or docker per prompt, with the same helper and the same socket."""

import asyncio
import math
import os
import re
import secrets
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from batchrun_api.image_names import whole_name
from batchrun_api.messages import SandboxSignal
from batchrun_api.names import HELPER_DIR, SANDBOX_SOCKET_DIR, SOCKET_NAME
from batchrun_api.outcomes import Outcome, Reason
from batchrun_api.quantities import parse_quantity
from batchrun_runner.sandbox.backend import SandboxLease, SandboxRequest, lease
from batchrun_runner.sandbox.errors import SandboxUnavailable
from batchrun_runner.sandbox.helper import find_sandboxd
from batchrun_runner.sandbox.launched import Launched
from batchrun_runner.sandbox.workspace import Workspace, remove_tree
from batchrun_runner.text import one_line

ENV_ARGUMENTS = "BATCHRUN_CONTAINER_ARGUMENTS"
_ENGINES = ("podman", "docker")
_IMAGE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,499}")
_SHOWN_CHARS = 300
_KILLED = 137
_OOM_FILE = "oom"


def extra_arguments(environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """What this machine's engine needs besides, from BATCHRUN_CONTAINER_ARGUMENTS, quoted as in a shell."""
    return tuple(shlex.split(environ.get(ENV_ARGUMENTS, "")))


def find_engine(path: str | None = None) -> str | None:
    """The container engine's client on the search path, podman first; None when there is none."""
    found = next((found for name in _ENGINES if (found := shutil.which(name, path=path))), None)
    return str(Path(found).absolute()) if found else None


class ContainerBackend:
    """`engine` is podman's or docker's client. `default_image` serves rows without one; `rewritten` says by which
    name an image is asked for; `extra_arguments` go to `run` as they are (for machines that need their own, such as
    `--runtime=runc`)."""

    def __init__(
        self,
        engine: str,
        *,
        default_image: str,
        rewritten: Callable[[str], str] = lambda image: image,
        helper: Path | None = None,
        extra_arguments: Sequence[str] = (),
        deadline_seconds: float = 60.0,
        pull_seconds: float = 600.0,
    ) -> None:
        self._engine = engine
        self._default_image = default_image
        self._rewritten = rewritten
        self._helper = helper
        self._extra_arguments = tuple(extra_arguments)
        self._deadline_seconds = deadline_seconds
        self._pull_seconds = pull_seconds
        self._finding = asyncio.Lock()
        self._pulling: dict[str, asyncio.Lock] = {}
        self._workspace = Workspace()
        self._open: dict[str, Launched] = {}

    async def open(self, request: SandboxRequest) -> SandboxLease:
        """A new container of the row's image, which is pulled when it is not there."""
        image = await self._ensure_image(self._asked_for(request.image or self._default_image))
        helper = await self._find_helper()
        name = f"batchrun-{secrets.token_hex(6)}"
        folder = await self._workspace.sandbox_folder()
        # podman's monitor leaves _OOM_FILE where it was started when a container runs out of memory.
        launched = Launched(folder, self._command(name, image, helper, folder, request), None, folder)
        self._open[name] = launched

        async def release(_outcome: Outcome, _reason: Reason | None) -> None:
            await self._remove(name)

        try:
            connection = await launched.connect(self._deadline_seconds)
        except BaseException:
            await self._remove(name)
            raise
        return await lease(connection, request, release, lambda: _cause_of_loss(launched, request.memory))

    async def close(self) -> None:
        """Remove every container that is still there."""
        await asyncio.gather(*(self._remove(name) for name in list(self._open)))
        await asyncio.to_thread(self._workspace.close)

    def _command(self, name: str, image: str, helper: Path, folder: Path, request: SandboxRequest) -> list[str]:
        limits = [f"--memory={_bytes(request.memory)}"] if request.memory else []
        limits += [f"--cpus={_cores(request.cpus)}"] if request.cpus else []
        limits += [f"--user={request.user}"] if request.user else []
        return [
            self._engine,
            "run",
            "--rm",
            "--pull=never",
            f"--name={name}",
            "--label=batchrun.dev/sandbox",
            "--security-opt=label=disable",  # else SELinux keeps the socket from the container
            "--security-opt=no-new-privileges",
            f"--volume={helper}:{HELPER_DIR}/sandboxd:ro",
            f"--volume={folder}:{SANDBOX_SOCKET_DIR}:ro",
            f"--entrypoint={HELPER_DIR}/sandboxd",
            *limits,
            *self._extra_arguments,
            image,
            "serve",
            f"--socket={SANDBOX_SOCKET_DIR}/{SOCKET_NAME}",
            "--once",
        ]

    def _asked_for(self, image: str) -> str:
        if not _IMAGE_NAME.fullmatch(image):
            raise SandboxUnavailable(Reason.IMAGE_UNAVAILABLE, f"{image!r} is no image name")
        return self._rewritten(image)

    async def _ensure_image(self, image: str) -> str:
        """The name by which the engine knows the image, which is there then. Equal images are pulled once.

        Raises SandboxUnavailable (ImageUnavailable) with the registry's words.
        """
        async with self._pulling.setdefault(image, asyncio.Lock()):
            if (await self._run("image", "inspect", image))[0] == 0:
                return image
            whole = whole_name(image)
            code, words = await self._run("pull", "--quiet", whole)
            if code != 0:
                raise SandboxUnavailable(Reason.IMAGE_UNAVAILABLE, f"{whole} cannot be pulled: {words}")
            return whole

    async def _remove(self, name: str) -> None:
        launched = self._open.pop(name, None)
        if launched is None:
            return
        await launched.stop()
        await self._run("rm", "--force", name)
        await asyncio.to_thread(remove_tree, launched.folder)

    async def _run(self, *arguments: str) -> tuple[int, str]:
        """Exit code and words, in one line, of one call of the engine; a call that hangs counts as failed."""
        process = await asyncio.create_subprocess_exec(
            self._engine,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(self._pull_seconds):
                _, words = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            return -1, f"no end in {self._pull_seconds:g} s"
        return process.returncode or 0, one_line(words.decode(errors="replace"), _SHOWN_CHARS)

    async def _find_helper(self) -> Path:
        async with self._finding:
            if self._helper is None:
                self._helper = await asyncio.to_thread(find_sandboxd, os.environ)
            return self._helper


async def _cause_of_loss(launched: Launched, memory: str) -> SandboxSignal | None:
    """By the exit code, which the engine's client passes on."""
    code = await launched.exit_code()
    if code is None:
        return None
    if code == _KILLED and (launched.folder / _OOM_FILE).exists():
        return SandboxSignal(reason=Reason.OOM_KILLED, message=f"OOMKilled, exit code {code}, memory limit {memory}")
    return SandboxSignal(reason=Reason.SANDBOX_LOST, message=f"its container ended with exit code {code}")


def _cores(quantity: str) -> str:
    """A Kubernetes quantity of CPU (`250m`, `1.5`) in cores, which is all that engines take."""
    return f"{parse_quantity(quantity):f}"


def _bytes(quantity: str) -> str:
    """A Kubernetes quantity of memory in bytes: engines read some of its units as others."""
    return str(math.ceil(parse_quantity(quantity)))
