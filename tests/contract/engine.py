"""The container engine of this machine, podman or docker, and images that are made for a test."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest
from tests.cluster.testbed.local_images import sandbox_image_context

from batchrun_runner.sandbox.container import ENV_ARGUMENTS, extra_arguments, find_engine

NEEDED_HERE = "--runtime=runc --ulimit=nofile=1024:1024 --ulimit=nproc=1024:1024"
"""For machines without CAP_SYS_RESOURCE and with cgroups in hybrid mode, where crun does not start."""


def engine_call(*arguments: str) -> subprocess.CompletedProcess[str]:
    """One call of the engine's client, whatever comes of it."""
    return subprocess.run([str(find_engine()), *arguments], capture_output=True, text=True, check=False, timeout=60)


def engine_name() -> str:
    """podman or docker; empty where there is neither."""
    return Path(find_engine() or "").name


def require_engine() -> Path:
    """A static busybox, where there is an engine too; else the test is skipped, or fails in CI."""
    busybox = shutil.which("busybox", path="/bin:/usr/bin")
    if find_engine() is None or busybox is None:
        _missing("podman and a static busybox are needed")
    return Path(busybox)


def arguments_needed(image: str) -> tuple[str, ...]:
    """What the engine needs on this machine to start a container of an image with /bin/echo; usually nothing."""
    for arguments in (extra_arguments(), extra_arguments({ENV_ARGUMENTS: NEEDED_HERE})):
        tried = engine_call("run", "--rm", "--entrypoint=/bin/echo", *arguments, image, "works")
        if tried.stdout == "works\n":
            return arguments
    pytest.fail(f"podman starts no container here: {tried.stderr}")


def build(name: str, tag: str, work: Path) -> None:
    """An image from a folder of tests/cluster/testbed/sandbox_images, as the test cluster has it too."""
    with sandbox_image_context(name, work) as context:
        isolation = ["--isolation=chroot"] if engine_name() == "podman" else []
        made = engine_call("build", *isolation, "--tag", tag, str(context))
        assert made.returncode == 0, made.stderr


def _missing(what: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)
