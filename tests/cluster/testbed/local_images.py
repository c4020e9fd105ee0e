"""The images that the testbed makes itself: pause, the stand-ins for the Python and Go bases, sandbox images."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.testbed import images, rootfs
from tests.cluster.testbed.binaries import go_program
from tests.cluster.testbed.settings import PAUSE_IMAGE, TESTBED_DIR, Layout
from tests.cluster.testbed.shell import Word, run

PYTHON_BASE = "localhost/batchrun/python-base:bookworm"
PROJECT_IMAGES = {
    "operator": "batchrun-operator:dev",
    "runner": "batchrun-runner:dev",
    "browser": "batchrun-browser:dev",
}
"""Built from the last stage of `Dockerfile.<key>`; the browser from a stage of the runner's."""
SANDBOX_IMAGES_DIR = TESTBED_DIR / "sandbox_images"


def _digest_of(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@contextmanager
def _staging(layout: Layout) -> Iterator[Path]:
    """A build context that is put together for one build, in the cache: /tmp may be small."""
    layout.cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=layout.cache, prefix=".staging-") as name:
        yield Path(name)


def load_pause(layout: Layout) -> None:
    """The sandbox container of every pod; must be there before the first pod."""
    source = TESTBED_DIR / "pause"
    with _staging(layout) as staging:
        flags = ["-trimpath", "-ldflags=-s -w"]
        digest = _digest_of((source / "main.go").read_text())
        build = images.Build(PAUSE_IMAGE, source / "Dockerfile", staging, digest=digest)
        if not images.is_current(layout, build):
            program: list[Word] = [go_program(), "build", *flags, "-o", staging / "pause", source / "main.go"]
            run(program, extra_env={"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"})
            images.build_image(layout, build)
    images.load_image(layout, PAUSE_IMAGE)


def ensure_python_base(layout: Layout) -> str:
    """PYTHON_BASE in buildah's store: Debian's Python, behaving like the official image."""
    context = rootfs.ensure_rootfs(layout)
    dockerfile = TESTBED_DIR / "python_base" / "Dockerfile"
    return images.build_image(layout, images.Build(PYTHON_BASE, dockerfile, context, digest=context.name))


def go_base_tag() -> str:
    return f"localhost/batchrun/go-base:{run([go_program(), 'env', 'GOVERSION']).strip().removeprefix('go')}"


def ensure_go_base(layout: Layout) -> str:
    """This machine's Go toolchain as an image; without a C compiler, so CGO_ENABLED=0 in it."""
    ensure_python_base(layout)
    source, tag = TESTBED_DIR / "go_base", go_base_tag()
    goroot = Path(run([go_program(), "env", "GOROOT"]).strip())
    base = images.image_id(PYTHON_BASE) or ""
    build = images.Build(
        tag, source / "Dockerfile", goroot, ignore_file=source / "ignore", digest=_digest_of(tag, base)
    )
    return images.build_image(layout, build)


def _fill_busybox(staging: Path) -> None:
    folder = staging / "rootfs" / "bin"
    folder.mkdir(parents=True)
    (staging / "rootfs" / "tmp").mkdir(mode=0o1777)
    shutil.copy("/bin/busybox", folder / "busybox")
    for applet in run([folder / "busybox", "--list"]).split():
        if applet != "busybox":
            (folder / applet).symlink_to("busybox")


@contextmanager
def sandbox_image_context(name: str, parent: Path) -> Iterator[Path]:
    """A folder of `sandbox_images`, copied below `parent` and complete: with busybox where its Dockerfile wants it."""
    with tempfile.TemporaryDirectory(dir=parent, prefix=".staging-") as staging:
        context = Path(staging) / name
        shutil.copytree(SANDBOX_IMAGES_DIR / name, context)
        if "rootfs/" in (context / "Dockerfile").read_text():
            _fill_busybox(context)
        yield context


def sandbox_image_names() -> dict[str, str]:
    """Folder in `sandbox_images` → image name for pods."""
    folders = sorted(path.name for path in SANDBOX_IMAGES_DIR.iterdir() if path.is_dir())
    return {name: f"batchrun-test-{name}:dev" for name in folders}


def load_sandbox_images(layout: Layout) -> None:
    """Build and load all of `sandbox_images`; `/etc/batchrun-test-image` in each holds its folder's name."""
    python_base = ensure_python_base(layout)
    for name, tag in sandbox_image_names().items():
        with sandbox_image_context(name, layout.cache) as context:
            arguments = {"PYTHON_IMAGE": python_base} if name == "python" else {}
            images.build_image(layout, images.Build(tag, context / "Dockerfile", context, arguments))
        images.load_image(layout, tag)


def build_project_image(
    layout: Layout, dockerfile: Path, tag: str, context: Path, build_args: dict[str, str], target: str = ""
) -> str:
    """Build one of the project's own Dockerfiles on the local bases, unless `build_args` name others."""
    arguments = {"PYTHON_IMAGE": ensure_python_base(layout), "GO_IMAGE": ensure_go_base(layout), **build_args}
    return images.build_image(layout, images.Build(tag, dockerfile, context, arguments, target=target))


def load_project_images(layout: Layout) -> None:
    """Build and load PROJECT_IMAGES."""
    images.require_running(layout)
    for name, tag in PROJECT_IMAGES.items():
        target = name if name == "browser" else ""
        dockerfile = layout.repo / f"Dockerfile.{'runner' if target else name}"
        build_project_image(layout, dockerfile, tag, layout.repo, {}, target)
        images.load_image(layout, tag)
