"""Files of every unpleasant sort (field report c11)."""

import os
import time
from pathlib import Path

import pytest
from tests.contract.sandbox.support import names, status_kib

from batchrun_runner.sandbox.backend import SandboxLease
from batchrun_runner.sandbox.errors import ErrorKind, SandboxError
from batchrun_runner.sandbox.interface import SearchQuery
from batchrun_runner.sandbox.messages import FileLines


async def lines(lease: SandboxLease, path: str, *, first: int = 1, limit: int = 10) -> FileLines:
    return await lease.sandbox.read_lines(
        path, cwd=lease.cwd, first_line=first, limit_lines=limit, limit_bytes=10_000, max_line_bytes=1000
    )


async def helper_kib(lease: SandboxLease) -> int:
    done = await lease.sandbox.exec("echo $PPID", cwd=lease.cwd, timeout_seconds=5, limit_bytes=1000)
    return status_kib(int(done.output.head), "VmHWM")


async def test_a_line_of_100_mb_is_cut_with_flat_memory(lease: SandboxLease) -> None:
    with (Path(lease.cwd) / "long").open("wb") as file:
        for _ in range(100):
            file.write(b"x" * 1_000_000)

    found = await lines(lease, "long", limit=1)

    assert found.lines == ("x" * 1000,)
    assert found.cut[0].omitted_bytes > 60_000_000
    assert await helper_kib(lease) < 20_000


async def test_a_sparse_terabyte_is_refused_in_time(lease: SandboxLease) -> None:
    with (Path(lease.cwd) / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    began = time.monotonic()

    found = await lines(lease, "sparse")
    with pytest.raises(SandboxError) as raised:
        await lines(lease, "sparse", first=2)

    assert found.binary
    assert raised.value.kind is ErrorKind.TOO_LARGE
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(("path", "kind"), [("/dev/zero", ErrorKind.NOT_A_FILE), ("/", ErrorKind.IS_DIRECTORY)])
async def test_special_files_are_refused_at_once(lease: SandboxLease, path: str, kind: ErrorKind) -> None:
    for operation in (lines(lease, path), lease.sandbox.write_file(path, b"x", cwd=lease.cwd)):
        with pytest.raises(SandboxError) as raised:
            await operation
        assert raised.value.kind is kind


async def test_a_fifo_blocks_nothing(lease: SandboxLease) -> None:
    os.mkfifo(Path(lease.cwd) / "fifo")

    for operation in (
        lines(lease, "fifo"),
        lease.sandbox.write_file("fifo", b"x", cwd=lease.cwd),
        lease.sandbox.read_bytes("fifo", cwd=lease.cwd, offset_bytes=0, limit_bytes=10),
        lease.sandbox.list_directory("fifo", cwd=lease.cwd, limit=10),
    ):
        with pytest.raises(SandboxError) as raised:
            await operation
        assert raised.value.kind in {ErrorKind.NOT_A_FILE, ErrorKind.NOT_A_DIRECTORY}
    found = await lease.sandbox.search(SearchQuery("x", "content"), cwd=lease.cwd)
    assert found.matches == ()


async def test_binary_content_survives_a_write_and_a_read(lease: SandboxLease) -> None:
    data = bytes(range(256)) * 1000

    await lease.sandbox.write_file("a/b", data, cwd=lease.cwd)
    found = await lease.sandbox.read_bytes("a/b", cwd=lease.cwd, offset_bytes=0, limit_bytes=1_000_000)

    assert (found.data, found.eof) == (data, True)


async def test_a_write_keeps_mode_and_link(lease: SandboxLease) -> None:
    work = Path(lease.cwd)
    (work / "script").write_text("old")
    (work / "script").chmod(0o750)
    (work / "link").symlink_to("script")

    await lease.sandbox.write_file("link", b"new", cwd=lease.cwd)

    assert (work / "link").is_symlink()
    assert (work / "script").read_text() == "new"
    assert (work / "script").stat().st_mode & 0o777 == 0o750
    assert names(work) == ["link", "script"]


async def test_a_dangling_link_is_written_through(lease: SandboxLease) -> None:
    (Path(lease.cwd) / "link").symlink_to("target")

    written = await lease.sandbox.write_file("link", b"x", cwd=lease.cwd)

    assert written.created
    assert (Path(lease.cwd) / "target").read_text() == "x"


async def test_too_much_for_one_write_is_refused(lease: SandboxLease) -> None:
    for size in (11 * 1024 * 1024 + 1, 20 * 1024 * 1024):
        with pytest.raises(SandboxError) as raised:
            await lease.sandbox.write_file("big", b"x" * size, cwd=lease.cwd)
        assert raised.value.kind is ErrorKind.TOO_LARGE


async def test_kernel_files_that_wait_for_events_do_not_block(lease: SandboxLease) -> None:
    with pytest.raises(SandboxError) as raised:
        await lines(lease, "/proc/kmsg", limit=2000)

    assert raised.value.kind in {ErrorKind.LIMIT, ErrorKind.PERMISSION_DENIED}


async def test_a_folder_of_20_050_files_is_searched_in_part_and_says_so(lease: SandboxLease) -> None:
    many = Path(lease.cwd) / "many"
    many.mkdir()
    for number in range(20_050):
        (many / f"{number:05}").touch()

    found = await lease.sandbox.search(SearchQuery("00000", "files"), cwd=lease.cwd)
    listed = await lease.sandbox.list_directory("many", cwd=lease.cwd, limit=10)

    assert found.truncated == "folder_too_large"
    assert (len(listed.entries), listed.truncated) == (10, True)


async def test_a_long_line_is_shown_around_its_match(lease: SandboxLease) -> None:
    (Path(lease.cwd) / "f").write_text("é" * 5000 + "needle" + "é" * 5000)

    found = await lease.sandbox.search(SearchQuery("needle", "content"), cwd=lease.cwd)

    assert "needle" in found.matches[0].text
    assert len(found.matches[0].text.encode()) < 520
    assert "\ufffd" not in found.matches[0].text


async def test_a_loop_of_links_ends(lease: SandboxLease) -> None:
    (Path(lease.cwd) / "loop").symlink_to(".")
    (Path(lease.cwd) / "f").write_text("x")

    found = await lease.sandbox.search(SearchQuery("x", "content"), cwd=lease.cwd)

    assert [match.path for match in found.matches] == ["f"]
