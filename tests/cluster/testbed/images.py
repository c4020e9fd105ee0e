"""Container images without a registry: built by buildah, carried as archives, imported into containerd.

Building is skipped when nothing that goes in has changed, loading when containerd has that very image. Archives stay in
the cache, so that a new cluster gets its images without a build.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

from batchrun_api.image_names import whole_name
from tests.cluster.testbed.errors import CommandError, HostError, TestbedError
from tests.cluster.testbed.node import containerd_answers, ctr
from tests.cluster.testbed.settings import Layout
from tests.cluster.testbed.shell import Word, locked, run, say, succeeds, wait_until, write_atomically

CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")


@dataclass(frozen=True)
class Build:
    """What makes an image. `digest` None: taken from the context's files; bases give their recipe's digest."""

    tag: str
    dockerfile: Path
    context: Path
    build_args: Mapping[str, str] = field(default_factory=dict)
    ignore_file: Path | None = None
    digest: str | None = None
    target: str = ""
    """Stage of the Dockerfile; empty: the last one."""


@dataclass(frozen=True)
class Built:
    """Record of a finished build."""

    name: str
    inputs: str
    image_id: str


@cache
def storage_driver() -> str:
    """`overlay` where the kernel mounts one below buildah's folder, else the slower `vfs`."""
    if "STORAGE_DRIVER" in os.environ:
        return os.environ["STORAGE_DRIVER"]
    store = Path("/var/lib/containers")
    store.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=store) as name:
        lower, upper, work, merged = (Path(name) / part for part in ("lower", "upper", "work", "merged"))
        for folder in (lower, upper, work, merged):
            folder.mkdir()
        options = f"lowerdir={lower},upperdir={upper},workdir={work}"
        if not succeeds(["mount", "-t", "overlay", "overlay", "-o", options, merged]):
            return "vfs"
        run(["umount", merged])
    return "overlay"


def buildah(*words: str | Path) -> str:
    return run(
        ["buildah", *words],
        extra_env={"STORAGE_DRIVER": storage_driver(), "BUILDAH_ISOLATION": "chroot"},
    )


def image_id(name: str) -> str | None:
    """buildah's id of an image, None when it has none of that name."""
    try:
        return buildah("inspect", "--type", "image", "--format", "{{.FromImageID}}", name).strip()
    except CommandError:
        return None


def _context_files(context: Path) -> Iterator[Path]:
    """The files that a build may read: in a git checkout those that git does not ignore, else all.

    A `.dockerignore` that begins with `*` lets in what its `!` lines name and no more.
    """
    listing = ["git", "-C", str(context), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    found = subprocess.run(listing, capture_output=True, text=True, check=False)
    if found.returncode == 0:
        kept = _kept_names(context)
        names = (name for name in sorted(set(found.stdout.split("\0"))) if name)
        yield from (context / name for name in names if kept is None or name.split("/")[0] in kept)
    else:
        yield from sorted(path for path in context.rglob("*") if not path.is_dir() or path.is_symlink())


def _kept_names(context: Path) -> set[str] | None:
    """First parts of the paths that `.dockerignore` lets in; None: it does not say so, all may count."""
    path = context / ".dockerignore"
    lines = [line for line in path.read_text().split("\n") if line and line[0] != "#"] if path.is_file() else []
    return {line[1:].split("/")[0] for line in lines if line[0] == "!"} if lines[:1] == ["*"] else None


def context_digest(context: Path) -> str:
    """sha256 over names, modes and contents."""
    digest = hashlib.sha256()
    for path in _context_files(context):
        if path.is_symlink():
            content, mode = os.fsencode(path.readlink()), 0
        elif path.is_file():
            content, mode = path.read_bytes(), path.stat().st_mode
        else:  # deleted but still in git's index
            continue
        header = f"{path.relative_to(context)}\0{mode:o}\0{hashlib.sha256(content).hexdigest()}\n"
        digest.update(header.encode())
    return digest.hexdigest()


def _inputs(build: Build) -> str:
    """Digest of all that decides about the result. Local bases count by their id, so a new base is a new image."""
    parts = {
        "context": build.digest or context_digest(build.context),
        "dockerfile": build.dockerfile.read_text(),
        "args": dict(build.build_args),
        **({"target": build.target} if build.target else {}),
        "bases": {value: image_id(value) for value in build.build_args.values() if value.startswith("localhost/")},
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _file_stem(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "_", name)


def _record_path(layout: Layout, name: str) -> Path:
    return layout.cache / "images" / f"{_file_stem(name)}.json"


def _lock_path(layout: Layout, name: str) -> Path:
    """One per image: buildah itself copes with builds of different ones at the same time."""
    return layout.cache / "images" / f".lock-{_file_stem(name)}"


def read_built(layout: Layout, name: str) -> Built | None:
    try:
        return Built(**json.loads(_record_path(layout, name).read_text()))
    except (OSError, ValueError, TypeError):
        return None


def is_current(layout: Layout, build: Build, inputs: str | None = None) -> bool:
    """True: buildah holds the image and it was made from the same inputs."""
    known = read_built(layout, whole_name(build.tag))
    if known is None or known.inputs != (inputs or _inputs(build)):
        return False
    return image_id(known.name) == known.image_id


def build_image(layout: Layout, build: Build) -> str:
    """Build `build.tag` unless it is there, made from the same inputs. Gives the full name."""
    name = whole_name(build.tag)
    with locked(_lock_path(layout, name)):
        inputs = _inputs(build)
        if is_current(layout, build, inputs):
            return name
        say(f"building image {build.tag}")
        _buildah_bud(build, name)
        made = image_id(name)
        if made is None:
            raise TestbedError(f"buildah built {name} and does not know it")
        write_atomically(_record_path(layout, name), json.dumps(asdict(Built(name, inputs, made))))
    say(f"built image {build.tag}")
    return name


def _buildah_bud(build: Build, name: str) -> None:
    """`bud` with the host's network and CA bundle: packages come from wherever the host gets them."""
    words: list[Word] = ["bud", "--layers", "--network", "host", "--pull-never", "--tag", name]
    words += ["--file", build.dockerfile]
    if build.target:
        words += ["--target", build.target]
    if build.ignore_file is not None:
        words += ["--ignorefile", build.ignore_file]
    arguments = dict(build.build_args)
    if CA_BUNDLE.is_file():
        words += ["--volume", f"{CA_BUNDLE}:{CA_BUNDLE}:ro"]
        arguments.setdefault("PIP_CERT", str(CA_BUNDLE))
    for key, value in arguments.items():
        words += ["--build-arg", f"{key}={value}"]
    buildah(*words, build.context)


def archive_path(layout: Layout, built: Built) -> Path:
    return layout.cache / "images" / f"{_file_stem(built.name)}-{built.image_id[:12]}.tar"


def export_image(layout: Layout, name: str) -> Path:
    """The image as an OCI archive in the cache; older archives of that name are removed."""
    built = read_built(layout, name)
    if built is None:
        raise TestbedError(f"{name} was not built by this testbed")
    target = archive_path(layout, built)
    with locked(_lock_path(layout, name)):
        if not target.is_file():
            partial = target.with_suffix(".partial")
            partial.unlink(missing_ok=True)
            # Uncompressed: both ends are this machine.
            buildah("push", "--quiet", "--disable-compression", name, f"oci-archive:{partial}:{name}")
            for older in target.parent.glob(f"{_file_stem(name)}-{'[0-9a-f]' * 12}.tar"):
                older.unlink()
            partial.rename(target)
    return target


def _loaded_path(layout: Layout, name: str) -> Path:
    return layout.loaded / f"{_file_stem(name)}.json"


def _is_loaded(layout: Layout, name: str, wanted_id: str) -> bool:
    """True: containerd has that name and we loaded that id under it."""
    with suppress(OSError, ValueError):
        if json.loads(_loaded_path(layout, name).read_text()).get("image_id") == wanted_id:
            return bool(ctr(layout, "images", "list", "--quiet", f"name=={name}").strip())
    return False


def load_image(layout: Layout, tag: str) -> None:
    """Put an image that was built here into containerd, where a pod finds it with IfNotPresent."""
    name = whole_name(tag)
    built = read_built(layout, name)
    if built is None:
        raise TestbedError(f"{tag} was not built by this testbed: use the verb build first")
    require_running(layout)
    if not _is_loaded(layout, name, built.image_id):
        archive = export_image(layout, name)
        _import(layout, archive)
        write_atomically(_loaded_path(layout, name), json.dumps({"name": name, "image_id": built.image_id}))
        say(f"loaded {tag}")


def load_archive(layout: Layout, archive: Path) -> None:
    """Put the images of an OCI or docker archive into containerd, by the names that they carry."""
    require_running(layout)
    _import(layout, archive)
    record = {"archive": str(archive.resolve())}
    write_atomically(_loaded_path(layout, str(archive.resolve())), json.dumps(record))
    say(f"loaded {archive}")


def _import(layout: Layout, archive: Path) -> None:
    """Import and wait until the kubelet can see it: containerd's CRI part learns of a new image by an event."""
    told = ctr(layout, "images", "import", archive)
    names = re.findall(r"unpacking (\S+) ", told)
    if not names:
        raise TestbedError(f"{archive} holds no named image: {told}")
    wait_until(f"{', '.join(names)} seen by CRI", lambda: set(names) <= set(_cri_images(layout)), timeout_seconds=20)


def _cri_images(layout: Layout) -> list[str]:
    return ctr(layout, "images", "list", "--quiet", 'labels."io.cri-containerd.image"==managed').split()


def load_recorded(layout: Layout) -> None:
    """After a repair: give containerd what it had before; what is gone from the cache is left out."""
    for path in sorted(layout.loaded.glob("*.json")):
        try:
            record = json.loads(path.read_text())
            if "archive" in record:
                load_archive(layout, Path(record["archive"]))
            else:
                load_image(layout, record["name"])
        except (TestbedError, ValueError) as error:
            path.unlink()
            say(f"not loaded again: {error}")


def require_running(layout: Layout) -> None:
    """HostError unless containerd answers."""
    if not containerd_answers(layout):
        raise HostError("no cluster is up here: run `python -m tests.cluster.testbed up`")
