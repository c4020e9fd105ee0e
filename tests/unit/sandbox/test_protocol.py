"""Frames, constants and messages against the vectors that the Go tests read too."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchrun_runner.sandbox.errors import ErrorKind
from batchrun_runner.sandbox.messages import Hello
from batchrun_runner.sandbox.protocol import (
    MAX_FRAME_BYTES,
    PROTOCOL_VERSION,
    FrameError,
    FrameTooLarge,
    decode_body,
    encode_frame,
    read_frame,
)

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "protocol"
CONSTANTS: dict[str, Any] = json.loads((GOLDEN / "constants.json").read_text())
FRAMES: dict[str, list[dict[str, Any]]] = json.loads((GOLDEN / "frames.json").read_text())


async def read(data: bytes) -> dict[str, Any]:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return await read_frame(reader)


@pytest.mark.parametrize("case", FRAMES["valid"], ids=lambda case: case["name"])
async def test_a_frame_is_written_and_read_as_recorded(case: dict[str, Any]) -> None:
    assert encode_frame(case["message"]).hex() == case["hex"]
    assert await read(bytes.fromhex(case["hex"])) == case["message"]


@pytest.mark.parametrize("case", FRAMES["invalid"], ids=lambda case: case["name"])
async def test_what_is_no_frame_is_refused(case: dict[str, Any]) -> None:
    with pytest.raises(FrameError):
        await read(bytes.fromhex(case["hex"]))


async def test_nothing_after_a_frame_is_the_end() -> None:
    with pytest.raises(EOFError):
        await read(b"")


def test_constants_are_those_of_the_other_side() -> None:
    assert CONSTANTS["protocol_version"] == PROTOCOL_VERSION
    assert CONSTANTS["max_frame_bytes"] == MAX_FRAME_BYTES
    assert CONSTANTS["error_kinds"] == [str(kind) for kind in ErrorKind]


def test_a_hello_is_understood() -> None:
    hello = Hello.model_validate_json((GOLDEN / "hello.json").read_text())

    assert (hello.uid, hello.shell, hello.refused) == (65532, "/bin/sh", "IdentityTokenPresent")
    assert set(Hello.model_fields) == set(json.loads((GOLDEN / "hello.json").read_text())) - {"type"}


def test_a_message_above_the_limit_is_refused_before_it_is_sent() -> None:
    with pytest.raises(FrameTooLarge):
        encode_frame({"data": "x" * MAX_FRAME_BYTES})


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"1", b'{"a": NaN}', b"\xff"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(FrameError):
        decode_body(body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=5))
def test_any_message_survives_the_way(message: dict[str, Any]) -> None:
    assert asyncio.run(read(encode_frame(message))) == message
