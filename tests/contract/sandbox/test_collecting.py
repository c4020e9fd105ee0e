"""Bringing results out of a real sandbox: what comes, what is left out and why, whatever the names are."""

from dataclasses import dataclass, field

import pytest

from batchrun_runner.records import Artifacts, Collect
from batchrun_runner.sandbox.backend import SandboxLease
from batchrun_runner.sandbox.collecting import FILES_LIMIT, LEFT_OUT_LIMIT, NAMES_LIMIT, OUTPUT, collect


@dataclass
class Kept:
    """What was brought out, in memory."""

    files: dict[str, bytes] = field(default_factory=dict)
    output: bytes | None = None

    async def keep(self, path: str, data: bytes) -> str:
        self.files[path] = data
        return ""

    async def keep_output(self, data: bytes) -> None:
        self.output = data


async def done_by(lease: SandboxLease, command: str) -> None:
    done = await lease.sandbox.exec(command, cwd=lease.cwd, timeout_seconds=30, limit_bytes=4096)
    assert done.exit_code == 0, done.output.joined


async def brought_out(lease: SandboxLease, *paths: str, command: str = "", seconds: int = 20) -> tuple[Kept, Artifacts]:
    kept = Kept()
    found = await collect(lease, Collect(paths, command), {"COLOUR": "blue"}, seconds, kept)
    assert {file.path: file.size_bytes for file in found.files} == {p: len(data) for p, data in kept.files.items()}
    assert found.has_output == (kept.output is not None)
    return kept, found


def why(found: Artifacts) -> dict[str, str]:
    return {item.path: item.why for item in found.left_out}


async def test_files_and_folders_come_byte_by_byte_under_their_paths(lease: SandboxLease) -> None:
    await done_by(lease, r"mkdir -p out/a/b .git; printf 'x\0\377' > out/a/b/c; : > out/none")
    await done_by(lease, "echo 1 > .git/h; echo 2 > two")

    kept, found = await brought_out(lease, "out", "two", ".git")

    assert kept.files == {"out/a/b/c": b"x\0\xff", "out/none": b"", "two": b"2\n", ".git/h": b"1\n"}
    assert found.left_out == ()


async def test_the_whole_folder_and_absolute_paths(lease: SandboxLease) -> None:
    await done_by(lease, "echo 1 > one; mkdir -p d; echo 2 > d/two")
    kept, _ = await brought_out(lease, ".", f"{lease.cwd}/one")
    assert kept.files == {"one": b"1\n", "d/two": b"2\n", f"{lease.cwd}/one": b"1\n"}


async def test_links_and_special_files_are_left_out_and_named(lease: SandboxLease) -> None:
    await done_by(lease, "mkdir d; ln -s /etc/passwd d/link; ln -s / d/up; mkfifo d/pipe; echo x > d/x")
    await done_by(lease, "ln -s d way; ln -s nowhere broken")

    kept, found = await brought_out(lease, "d", "way", "broken", "missing", "d/x/below", "/dev/zero")

    assert kept.files == {"d/x": b"x\n"}
    link = "it is a link, and links are not followed"
    assert why(found) == {
        "d/link": link,
        "d/up": link,
        "way": link,
        "broken": link,
        "d/pipe": "it is a fifo, which is not read",
        "missing": "there is no such file or folder",
        "d/x/below": "there is no such file or folder",
        "/dev/zero": "it is a device, which is not read",
    }


async def test_hostile_names_come_as_they_are_or_are_left_out(lease: SandboxLease) -> None:
    await done_by(lease, "mkdir d; cd d; printf 1 > 'a\nb'; printf 2 > '-rf *'; printf 3 > '$(id)'")
    await done_by(lease, r"cd d; printf 4 > $(printf 'bad\377'); printf 5 > 'back\slash'")

    kept, found = await brought_out(lease, "d")

    assert kept.files == {"d/a\nb": b"1", "d/-rf *": b"2", "d/$(id)": b"3", "d/back\\slash": b"5"}
    assert list(why(found)) == ["d/bad\ufffd"]


async def test_what_does_not_fit_is_named_and_what_is_smaller_still_comes(lease: SandboxLease) -> None:
    await done_by(lease, "head -c 9000000 /dev/zero > a; head -c 9000000 /dev/zero > b; echo c > c")

    kept, found = await brought_out(lease, "a", "b", "c", "/proc/self/status")

    assert list(kept.files) == ["a", "c", "/proc/self/status"], "a file of /proc has no size and yet content"
    assert len(kept.files["a"]) == 9_000_000
    assert why(found) == {"b": "it has 9,000,000 bytes or more; 7,777,216 were left of 16,777,216 for a prompt"}


async def test_files_are_bounded_and_the_rest_is_listed_and_counted(lease: SandboxLease) -> None:
    await done_by(lease, "mkdir d; cd d; touch $(seq 100 399)")

    kept, found = await brought_out(lease, "d")

    assert len(kept.files) == FILES_LIMIT
    assert {item.why for item in found.left_out} == {f"there are more than {FILES_LIMIT} files"}
    assert (len(found.left_out), found.more_left_out) == (LEFT_OUT_LIMIT, 300 - FILES_LIMIT - LEFT_OUT_LIMIT)


async def test_names_are_bounded_and_folders_that_are_not_looked_at_are_named(lease: SandboxLease) -> None:
    await done_by(lease, f"mkdir d e; cd d; mkdir $(seq {NAMES_LIMIT + 100})")

    kept, found = await brought_out(lease, "d", "e")

    assert kept.files == {}
    assert found.left_out[0].why == f"not all of it: at most {NAMES_LIMIT:,} names are looked at"
    assert len(found.left_out) + found.more_left_out == 1 + NAMES_LIMIT + 1


async def test_a_commands_output_comes_byte_by_byte_without_its_errors(lease: SandboxLease) -> None:
    kept, found = await brought_out(lease, command=r"printf '\377\0'; echo $COLOUR; seq 100000; echo error >&2")
    assert kept.output is not None
    assert kept.output[:7] == b"\xff\0blue\n"
    assert len(kept.output) > 500_000
    assert found.left_out == ()


@pytest.mark.parametrize(
    ("command", "words", "output"),
    [
        ("echo part; echo no >&2; exit 129", "exit code 129, what it had written is kept; it said: no", b"part\n"),
        ("no-such-program", "exit code 127", b""),
        ("echo part; sleep 300", "did not end in 1 s and was killed", b"part\n"),
        ("kill -9 $$", "exit code 137 (SIGKILL)", b""),
        ("'", "exit code", b""),
        ("head -c 17000000 /dev/zero", "it has 17,000,000 bytes or more; 16,777,216 were left", None),
        ("rm -f $BATCHRUN_COLLECTED", "no such file", None),
    ],
)
async def test_a_command_that_does_not_end_well_is_named(
    lease: SandboxLease, command: str, words: str, output: bytes | None
) -> None:
    kept, found = await brought_out(lease, command=command, seconds=1)
    assert words in why(found)[OUTPUT]
    assert kept.output == output


async def test_nothing_writes_any_more_and_a_folder_that_is_gone_is_no_end(lease: SandboxLease) -> None:
    await lease.sandbox.start("while :; do echo late > late; done", cwd=lease.cwd)
    kept, found = await brought_out(lease, command="rm -f late; sleep 0.3; ls")
    assert kept.output == b""
    await done_by(lease, f"rm -rf {lease.cwd}")
    kept, found = await brought_out(lease, "missing", command="pwd")
    assert kept.output == f"{lease.cwd}\n".encode()
    assert list(why(found)) == ["missing"]


async def test_a_command_that_cannot_even_start_takes_no_file_with_it(lease: SandboxLease) -> None:
    """The agent may have put a file where its folder was, or have removed the shell."""
    await done_by(lease, f"echo 1 > {lease.cwd}.kept; rm -rf {lease.cwd}; echo file > {lease.cwd}")
    kept, found = await brought_out(lease, f"{lease.cwd}.kept", "relative", command="pwd")

    assert kept.files == {f"{lease.cwd}.kept": b"1\n"}
    assert "the command could not be run" in why(found)[OUTPUT]
    assert set(why(found)) == {OUTPUT, "relative"}
    await lease.sandbox.exec(f"rm -f {lease.cwd} {lease.cwd}.kept", cwd="/", timeout_seconds=20, limit_bytes=4096)


async def test_output_that_is_too_long_is_not_called_kept(lease: SandboxLease) -> None:
    _, found = await brought_out(lease, command="head -c 17000000 /dev/zero; exit 3")

    assert [item.why.partition(";")[0] for item in found.left_out] == [
        "it has 17,000,000 bytes or more",
        "the command ended with exit code 3",
    ]


async def test_a_name_that_is_no_utf8_is_left_out_for_that(lease: SandboxLease) -> None:
    await done_by(lease, r"mkdir odd; echo 1 > odd/$(printf 'bad\377'); echo 2 > odd/good")
    kept, found = await brought_out(lease, "odd")

    assert kept.files == {"odd/good": b"2\n"}
    assert why(found) == {"odd/bad\ufffd": "its name is no UTF-8 text"}


async def test_a_lost_sandbox_is_the_reason_for_all_of_it(lease: SandboxLease) -> None:
    kept, found = await brought_out(lease, "a", command="kill -9 $PPID")
    assert (kept.files, kept.output) == ({}, None)
    assert why(found)[""].startswith("the sandbox was lost: ")
