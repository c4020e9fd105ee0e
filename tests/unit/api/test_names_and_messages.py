"""Names fit Kubernetes, messages fit their room."""

import json
import re

from hypothesis import given
from hypothesis import strategies as st

from batchrun_api import names
from batchrun_api.messages import (
    SANDBOX_MESSAGE_LIMIT_BYTES,
    BatchMessage,
    StepMessage,
    batch_message_limit_bytes,
    parse_sandbox_message,
    sandbox_message,
)
from batchrun_api.outcomes import Outcome, Reason

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
resource_names = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,250}[a-z0-9])?", fullmatch=True)


@given(resource_names)
def test_d04_every_resource_name_gives_a_valid_child_name(run: str) -> None:
    name = names.child_name(run, "uid", "b9999-12")

    assert len(name) <= 63
    assert DNS_LABEL.fullmatch(name)


def test_d04_long_names_with_one_beginning_stay_distinct() -> None:
    one, other = "a" * 60 + "b" * 100, "a" * 60 + "c" * 100

    assert names.child_name(one, "u", "plan") != names.child_name(other, "u", "plan")
    assert names.shortened("run.v1.2") != names.shortened("run-v1-2")


def test_a_recreated_run_has_other_children() -> None:
    assert names.child_name("run", "uid-1", "plan") != names.child_name("run", "uid-2", "plan")


def test_a_sandbox_message_fits_for_every_outcome_and_reason() -> None:
    for outcome in Outcome:
        for reason in [None, *Reason]:
            message = sandbox_message(outcome, reason)
            assert len(message.encode()) <= SANDBOX_MESSAGE_LIMIT_BYTES
            assert parse_sandbox_message(message) == (outcome, reason)


@given(st.text())
def test_what_a_command_writes_there_is_no_outcome(text: str) -> None:
    parsed = parse_sandbox_message(text)

    assert parsed is None or sandbox_message(*parsed) == text.strip()


def test_a_batch_message_fits_with_all_its_figures() -> None:
    message = BatchMessage(
        completed=100, truncated=100, discarded=100, failed=100, left=100, reason="R" * 40, of_store=True
    )

    assert len(message.encode()) <= SANDBOX_MESSAGE_LIMIT_BYTES
    assert BatchMessage.parse(message.encode()) == message
    assert BatchMessage.parse("garbage") is None


@given(st.text(max_size=3000), st.integers(1, 100), st.integers(0, 4096))
def test_words_of_a_batch_use_the_room_of_its_pod_and_a_cut_takes_only_words(
    words: str, sandboxes: int, cut: int
) -> None:
    limit_bytes = batch_message_limit_bytes(sandboxes)
    encoded = BatchMessage(reason="PlanBroken", message=words).encode(limit_bytes).encode()

    assert len(encoded) <= limit_bytes <= min(4096, 12 * 1024 // (sandboxes + 2))
    parsed = BatchMessage.parse(encoded[: max(30, cut)].decode(errors="replace"))
    assert parsed.reason == "PlanBroken"


def test_a_pod_with_few_containers_has_room_for_a_whole_sentence() -> None:
    words = "s3://bucket/prefix/run/plans/0123456789/rows.jsonl is gone; " + "planning again makes it anew" * 10
    encoded = BatchMessage(reason="PlanBroken", message=words).encode(batch_message_limit_bytes(10))

    assert BatchMessage.parse(encoded).message == words
    assert len(BatchMessage.parse(BatchMessage(message=words).encode(100)).message.encode()) > 90


@given(st.text(max_size=9000), st.integers(300, 4000))
def test_a_step_message_is_shortened_until_it_fits(text: str, limit: int) -> None:
    encoded = StepMessage(reason="DatasetInvalid", message=text).encode(limit)

    assert len(encoded.encode("utf-8", "surrogatepass")) <= limit
    assert json.loads(encoded)["reason"] == "DatasetInvalid"
