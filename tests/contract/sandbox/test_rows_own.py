"""Files, setup and verifier of a row in a real sandbox: every end that they can have."""

import pytest

from batchrun_runner.records import PromptRow, RowFile, Verification, Verify
from batchrun_runner.sandbox.backend import SandboxLease
from batchrun_runner.sandbox.errors import SandboxLost, SetupFailed
from batchrun_runner.sandbox.preparing import prepare
from batchrun_runner.sandbox.verifying import OUTPUT_BYTES, verify


def row(*, files: tuple[RowFile, ...] = (), setup: str = "") -> PromptRow:
    return PromptRow(0, "k-0-0", "p", files=files, setup=setup)


async def judged(lease: SandboxLease, command: str, *files: RowFile, seconds: int | None = None) -> Verification:
    return await verify(lease, Verify(command, files, seconds), {}, 10)


@pytest.mark.parametrize(
    ("setup", "words"),
    [
        ("echo no; exit 4", "setup ended with exit code 4; its output ends: no"),
        ("no-such-program", "setup ended with exit code 127; its output ends: "),
        ("echo slow; sleep 300", "setup did not end in 1 s and was killed; its output ends: slow"),
        ("kill -9 $$", "setup ended with exit code 137 (SIGKILL)"),
        ("seq 1 100000; exit 1", "99999 100000"),
    ],
)
async def test_a_setup_that_fails_says_how_and_shows_the_end_of_its_output(
    lease: SandboxLease, setup: str, words: str
) -> None:
    with pytest.raises(SetupFailed) as raised:
        await prepare(lease, row(setup=setup), 1)

    assert words in raised.value.detail
    assert "\n" not in raised.value.detail
    assert len(raised.value.detail) < 400


async def test_a_file_that_cannot_be_written_is_named(lease: SandboxLease) -> None:
    with pytest.raises(SetupFailed, match=r"its files cannot be put in place: there/b: not a directory"):
        await prepare(lease, row(files=(RowFile("there", text="a file"), RowFile("there/b", text="x"))), 10)


async def test_a_sandbox_that_its_own_setup_kills_is_lost(lease: SandboxLease) -> None:
    with pytest.raises(SandboxLost):
        await prepare(lease, row(setup="kill -9 $PPID"), 10)


@pytest.mark.parametrize(
    ("command", "reward"),
    [
        ("true", 1.0),
        ("false", 0.0),
        ("exit 5", 0.0),
        ("echo -2.5e1 > $BATCHRUN_REWARD_FILE; exit 5", -25.0),
        ("printf ' 1 ' > $BATCHRUN_REWARD_FILE; kill -9 $$", 1.0),
    ],
)
async def test_a_verdict_is_the_exit_code_or_the_number_that_was_written(
    lease: SandboxLease, command: str, reward: float
) -> None:
    verdict = await judged(lease, command)
    assert (verdict.reward, verdict.ran, verdict.fault) == (reward, True, "")


@pytest.mark.parametrize("written", ["", "much", "nan", "inf", "1 2", "1" * 400, "1_0", "1e308", "-1.1e9"])
async def test_what_is_no_number_up_to_a_billion_is_no_verdict(lease: SandboxLease, written: str) -> None:
    verdict = await judged(lease, f"printf '{written}' > $BATCHRUN_REWARD_FILE")
    assert verdict.reward is None
    assert "to $BATCHRUN_REWARD_FILE, which is no number" in verdict.fault


async def test_a_verifier_that_is_ended_from_outside_or_not_there_gives_no_verdict(lease: SandboxLease) -> None:
    killed = await judged(lease, "echo half; kill -9 $$")
    missing = await judged(lease, "no-such-verifier")
    unwritable = await judged(lease, "true", RowFile("/proc/none", text="x"))
    lost = await judged(lease, "kill -9 $PPID")

    assert killed.fault == "the verifier ended with exit code 137 (SIGKILL), which is no verdict; its output ends: half"
    assert "exit code 127 (a shell's word for a command that is not there" in missing.fault
    assert "the verifier could not be run: " in unwritable.fault
    assert "the sandbox was lost while the verifier was at work" in lost.fault
    assert [verdict.reward for verdict in (killed, missing, unwritable, lost)] == [None] * 4


async def test_the_time_of_a_verifier_is_its_own_and_its_output_is_bounded(lease: SandboxLease) -> None:
    late = await judged(lease, "echo 1 > $BATCHRUN_REWARD_FILE; sleep 300", seconds=1)
    wordy = await judged(lease, "seq 1 100000")

    assert (late.reward, late.timed_out) == (0.0, True)
    assert wordy.reward == 1.0
    assert len(wordy.output) < OUTPUT_BYTES + 100
    assert wordy.output.startswith("1\n2\n")
    assert wordy.output.endswith("100000\n")
