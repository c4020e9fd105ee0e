"""Field reports c01 to c11 and d01, as `batchrun local` meets them: in processes and in containers."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster.harness import field_reports
from tests.cluster.harness.field_reports import LEFT_BEHIND, READ_ONLY_CASES, Mode
from tests.cluster.harness.model import ModelServer
from tests.contract.engine import arguments_needed, build, engine_call, engine_name, require_engine
from tests.contract.local.support import Workplace, environment

IMAGES = {name: f"localhost/batchrun-reports-{name}-{os.getpid()}:1" for name in field_reports.IMAGES}


@pytest.fixture
def images(tmp_path: Path) -> Iterator[None]:
    """The images that rows name, in the engine of this machine."""
    require_engine()
    for name, tag in IMAGES.items():
        build(name, tag, tmp_path)
    yield
    engine_call("rmi", "--force", *IMAGES.values())


def left_behind() -> list[str]:
    """Processes of the machine, containers included, that a prompt left behind."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().split(b"\0")
        except OSError:
            continue
        if LEFT_BEHIND.encode() in words:
            found.append(file.parent.name)
    return found


@pytest.mark.timeout(240)
def test_field_reports_hold_in_local_processes(
    place: Workplace, model: ModelServer, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    place.prompts(field_reports.rows(Mode.PROCESS, {"work": str(tmp_path)}))
    place.spec(**field_reports.SPEC, model={"name": "demo/scripted", "baseURL": model.base_url})

    done = place.run("--sandbox", "process")

    assert (done.returncode, done.stderr) == (1, ""), "one prompt must fail, its folder cannot be"
    field_reports.judge(Mode.PROCESS, place.rows(), place.statistics(), subtests)
    assert left_behind() == []
    asked = model.requests
    assert place.run("--sandbox", "process").returncode == 1
    assert model.requests == asked, "c04: what was cut made a finished prompt run again"


@pytest.mark.timeout(400)
def test_field_reports_hold_in_local_containers(
    place: Workplace, model: ModelServer, images: None, subtests: pytest.Subtests
) -> None:
    place.prompts(field_reports.rows(Mode.CONTAINER, IMAGES | {"work": "/tmp"}))
    place.spec(
        **field_reports.SPEC,
        model={"name": "demo/scripted", "baseURL": model.base_url},
        sandbox={"image": IMAGES["busybox"], "resources": {"limits": {"memory": field_reports.MEMORY_LIMIT}}},
    )
    small_disk = f"--tmpfs={field_reports.SMALL_DISK}:size=16m,mode=1777"
    arguments = shlex.join([*arguments_needed(IMAGES["busybox"]), small_disk])

    done = place.run("--sandbox", "container", environ=environment(BATCHRUN_CONTAINER_ARGUMENTS=arguments))

    assert (done.returncode, done.stderr) == (1, "")
    field_reports.judge(Mode.CONTAINER, place.rows(), place.statistics(), subtests)
    assert left_behind() == []
    for tag in IMAGES.values():
        assert engine_call("ps", "--all", "--quiet", f"--filter=ancestor={tag}").stdout == ""


@pytest.mark.timeout(240)
def test_field_reports_hold_in_local_containers_with_a_read_only_root(
    place: Workplace, images: None, subtests: pytest.Subtests
) -> None:
    place.prompts(field_reports.rows(Mode.CONTAINER, IMAGES, READ_ONLY_CASES))
    place.spec()
    read_only = ["--read-only", *(["--read-only-tmpfs=false"] if engine_name() == "podman" else [])]
    arguments = shlex.join([*arguments_needed(IMAGES["busybox"]), *read_only])

    done = place.run("--sandbox", "container", environ=environment(BATCHRUN_CONTAINER_ARGUMENTS=arguments))

    assert (done.returncode, done.stderr) == (0, "")
    field_reports.judge(Mode.CONTAINER, place.rows(), place.statistics(), subtests, READ_ONLY_CASES)
