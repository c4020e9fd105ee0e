"""Where the sandboxd binary is: named, installed, or built once from the checkout into the user's cache."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from batchrun_runner.sandbox.errors import HelperMissing

ENV_SANDBOXD = "BATCHRUN_SANDBOXD"
INSTALLED = Path("/usr/local/bin/sandboxd")
SOURCES = Path(__file__).resolve().parents[2] / "sandboxd"
_BUILD_SECONDS = 300


def find_sandboxd(environ: Mapping[str, str] = os.environ, *, installed: Path = INSTALLED) -> Path:
    """The helper's path; blocking, since it may build. Raises HelperMissing with what to do about it."""
    if named := environ.get(ENV_SANDBOXD):
        return _checked(Path(named))
    if installed.is_file():
        return installed
    if not (SOURCES / "go.mod").is_file():
        raise HelperMissing(f"sandboxd is not installed: set {ENV_SANDBOXD} to its path, or use the runner image")
    target = cache_folder(environ) / f"sandboxd-{_digest(SOURCES)}" / "sandboxd"
    if not target.is_file():
        _build(target, environ)
    return target


def _checked(path: Path) -> Path:
    if not path.is_file() or not os.access(path, os.X_OK):
        raise HelperMissing(f"{ENV_SANDBOXD} names {path}, which is no program")
    return path.resolve()


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where this project keeps what it builds, outside of the checkout."""
    base = environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home()) / ".cache"
    return Path(base) / "batchrun"


def _digest(sources: Path) -> str:
    """Of everything that goes into the binary; tests do not."""
    digest = hashlib.sha256()
    files = [path for path in sources.rglob("*.go") if not path.name.endswith("_test.go")]
    for path in sorted([*files, sources / "go.mod"]):
        digest.update(f"{path.relative_to(sources)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _build(target: Path, environ: Mapping[str, str]) -> None:
    """Into a temporary name first: another process may build the same at this moment."""
    go = shutil.which("go", path=environ.get("PATH"))
    if go is None:
        raise HelperMissing(f"sandboxd must be built and Go is not installed: install Go, or set {ENV_SANDBOXD}")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        built = Path(folder) / "sandboxd"
        command = [go, "build", "-trimpath", "-ldflags=-s -w", "-o", str(built), "."]
        done = subprocess.run(  # noqa: S603 - our own sources
            command,
            cwd=SOURCES,
            env={**environ, "CGO_ENABLED": "0"},
            capture_output=True,
            text=True,
            timeout=_BUILD_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            raise HelperMissing(f"sandboxd does not build: {done.stderr.strip()[-500:]}")
        built.replace(target)
