"""Where sandboxd comes from."""

import os
import subprocess
from pathlib import Path

import pytest

from batchrun_runner.sandbox.errors import HelperMissing
from batchrun_runner.sandbox.helper import ENV_SANDBOXD, find_sandboxd
from batchrun_runner.sandbox.listener import SandboxListener

INTERPRETER = 3
"""PT_INTERP: the dynamic linker that a program needs."""


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_named_helper_wins(tmp_path: Path) -> None:
    named, installed = program(tmp_path / "named"), program(tmp_path / "installed")

    assert find_sandboxd({ENV_SANDBOXD: str(named)}, installed=installed) == named


def test_a_named_helper_must_be_a_program(tmp_path: Path) -> None:
    with pytest.raises(HelperMissing, match="which is no program"):
        find_sandboxd({ENV_SANDBOXD: str(tmp_path / "none")})


def test_the_installed_helper_needs_no_go(tmp_path: Path) -> None:
    installed = program(tmp_path / "installed")

    assert find_sandboxd({"PATH": ""}, installed=installed) == installed


def test_without_go_the_way_out_is_named(tmp_path: Path) -> None:
    with pytest.raises(HelperMissing, match=f"install Go, or set {ENV_SANDBOXD}"):
        find_sandboxd({"PATH": "", "XDG_CACHE_HOME": str(tmp_path)}, installed=tmp_path / "none")


def test_the_helper_is_built_once(tmp_path: Path) -> None:
    go_cache = subprocess.check_output(["go", "env", "GOCACHE"], text=True).strip()
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "GOCACHE": go_cache}
    environ.pop(ENV_SANDBOXD, None)

    built = find_sandboxd(environ, installed=tmp_path / "none")
    again = find_sandboxd({"PATH": "", "XDG_CACHE_HOME": str(tmp_path)}, installed=tmp_path / "none")

    assert built == again
    assert os.access(built, os.X_OK)
    assert [path.name for path in built.parent.iterdir()] == ["sandboxd"]


@pytest.mark.timeout(300)  # the first time, the standard library is compiled for the other one
@pytest.mark.parametrize(("architecture", "machine"), [("amd64", 62), ("arm64", 183)])
def test_the_helper_is_built_for_both_architectures_and_needs_no_libc(
    tmp_path: Path, architecture: str, machine: int
) -> None:
    """An ELF file of that machine without an interpreter: glibc, musl or nothing at all, any image will do."""
    go_cache = subprocess.check_output(["go", "env", "GOCACHE"], text=True).strip()
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "GOCACHE": go_cache, "GOARCH": architecture}
    environ.pop(ENV_SANDBOXD, None)

    header = find_sandboxd(environ, installed=tmp_path / "none").read_bytes()[:4096]

    assert header[:6] == b"\x7fELF\x02\x01"
    assert int.from_bytes(header[18:20], "little") == machine
    assert INTERPRETER not in program_headers(header)


def program_headers(elf: bytes) -> list[int]:
    """The types of a 64-bit ELF file's segments."""
    start, size, count = (int.from_bytes(elf[at : at + length], "little") for at, length in ((32, 8), (54, 2), (56, 2)))
    return [int.from_bytes(elf[start + n * size :][:4], "little") for n in range(count)]


def test_a_socket_path_that_is_too_long_is_refused_with_the_fix(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="use a shorter folder"):
        SandboxListener(tmp_path / ("x" * 120))
