"""The plan crosses a lossy log whole, or not at all."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchrun_api import frames
from batchrun_api.plan import Plan, PlanCounts, PlannedBatch


def a_plan(batches: int = 3) -> Plan:
    return Plan(
        plan_id="p1",
        counts=PlanCounts(total=batches * 10, done=0, to_run=batches * 10),
        images=["python:3.11-slim"],
        # Numbers that do not compress away, so that the document takes several frames.
        batches=[
            PlannedBatch(number=n, offset=n * 7919 % 1000003, length=1 + n * 104729 % 99991, images=[0, -1] * 5)
            for n in range(batches)
        ],
    )


MANY = frames.encode(a_plan(5000))


def test_a_plan_comes_back_as_it_went() -> None:
    assert frames.decode("\n".join(MANY)) == a_plan(5000)


def test_lines_stay_below_the_limit_of_a_log_line() -> None:
    assert len(MANY) > 4
    assert max(len(line.encode()) for line in MANY) < frames.LINE_LIMIT_BYTES


def test_other_lines_between_the_frames_do_no_harm() -> None:
    log = "starting\n" + "\n".join(f"{line}\nsome warning from a library" for line in MANY)

    assert frames.decode(log) == a_plan(5000)


def test_the_last_of_two_plans_counts() -> None:
    log = "\n".join([*frames.encode(a_plan(2)), *frames.encode(a_plan(3))])

    assert frames.decode(log) == a_plan(3)


@pytest.mark.parametrize("missing", range(len(MANY)))
def test_a_missing_line_is_noticed(missing: int) -> None:
    with pytest.raises(frames.BrokenFrames):
        frames.decode("\n".join(MANY[:missing] + MANY[missing + 1 :]))


def test_a_doubled_line_is_noticed() -> None:
    with pytest.raises(frames.BrokenFrames):
        frames.decode("\n".join([*MANY[:2], *MANY[1:]]))


@given(st.integers(0, len("\n".join(MANY)) - 1), st.characters(codec="ascii"))
def test_damage_never_gives_another_plan(position: int, character: str) -> None:
    log = "\n".join(MANY)
    damaged = log[:position] + character + log[position + 1 :]

    try:
        plan = frames.decode(damaged)
    except frames.BrokenFrames:
        return
    assert plan == a_plan(5000)


@given(st.integers(0, len("\n".join(MANY)) - 2))
def test_a_log_that_is_cut_is_noticed(end: int) -> None:
    with pytest.raises(frames.BrokenFrames):
        frames.decode("\n".join(MANY)[:end])


def test_a_plan_above_the_limit_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "DOCUMENT_LIMIT_BYTES", 1000)

    with pytest.raises(frames.PlanTooLarge, match="larger batchSize"):
        frames.encode(a_plan(5000))
