"""Frames between runner and sandboxd: a big-endian length of 4 bytes, then one JSON object (docs/protocol.md)."""

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson

PROTOCOL_VERSION = 1
MAX_FRAME_BYTES = 16 * 1024 * 1024
_HEADER_BYTES = 4


class FrameError(Exception):
    """The peer sent what is no frame, or a frame that is no JSON object."""


class FrameTooLarge(FrameError):
    """The message does not fit into a frame."""


def encode_frame(message: Mapping[str, Any]) -> bytes:
    """One frame. Raises FrameTooLarge above MAX_FRAME_BYTES, FrameError for text that is no UTF-8."""
    try:
        body = orjson.dumps(message)
    except orjson.JSONEncodeError as error:
        raise FrameError(f"the message is no JSON: {error}") from error
    if len(body) > MAX_FRAME_BYTES:
        raise FrameTooLarge(f"a message of {len(body)} bytes is above {MAX_FRAME_BYTES}")
    return len(body).to_bytes(_HEADER_BYTES) + body


def decode_body(body: bytes) -> dict[str, Any]:
    """The object of a frame's body; raises FrameError for anything else."""
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise FrameError(f"the frame is no JSON: {error}") from error
    if not isinstance(message, dict):
        raise FrameError(f"the frame holds a {type(message).__name__}, not an object")
    return message


async def read_frame(reader: asyncio.StreamReader) -> dict[str, Any]:
    """The next frame's object. Raises EOFError between frames, FrameError when the peer broke the protocol.

    The length is checked before anything is read: a peer cannot make the runner hold more than one bounded frame.
    """
    try:
        header = await reader.readexactly(_HEADER_BYTES)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise FrameError("the header was cut") from error
        raise EOFError from error
    size = int.from_bytes(header)
    if not 0 < size <= MAX_FRAME_BYTES:
        raise FrameError(f"a length of {size} bytes")
    try:
        return decode_body(await reader.readexactly(size))
    except asyncio.IncompleteReadError as error:
        raise FrameError("the body was cut") from error
