"""The plan on a pod's log. A log is a lossy channel, so the document is framed and checked.

Format, one burst of lines, written last::

    batchrun-plan/1 begin <frames> <bytes> <sha256 of the compressed document>
    batchrun-plan/1 <index> <base64>
    ...
    batchrun-plan/1 end

Measured on a real kubelet: with stderr beside it an 8 MB line came out corrupt, and of 30 MB only the last 12.5 MB came
back, without an error. Hence lines under 16 KiB, a checksum, and at most 8 MiB compressed.
"""

import base64
import gzip
import hashlib

from batchrun_api.plan import Plan

MARK = "batchrun-plan/1"
LINE_LIMIT_BYTES = 16 * 1024
DOCUMENT_LIMIT_BYTES = 8 * 1024 * 1024
_CHUNK_BYTES = 11 * 1024  # base64 makes 15 kB of it, which leaves room for the mark and the index


class PlanTooLarge(ValueError):
    """The compressed plan is above the limit; fewer, larger batches make it smaller."""


class BrokenFrames(ValueError):
    """The log does not hold one whole plan; it must be written again."""


def compress(plan: Plan) -> bytes:
    """The plan as gzip-compressed JSON; the same plan gives the same bytes."""
    return gzip.compress(plan.model_dump_json().encode(), mtime=0)


def decompress(data: bytes) -> Plan:
    """Inverse of `compress`. Raises ValueError on anything else."""
    try:
        return Plan.model_validate_json(gzip.decompress(data))
    except (OSError, EOFError) as error:
        raise ValueError(f"not a compressed plan: {error}") from error


def encode(plan: Plan) -> list[str]:
    """The plan as log lines. Raises PlanTooLarge above 8 MiB compressed."""
    data = compress(plan)
    if len(data) > DOCUMENT_LIMIT_BYTES:
        raise PlanTooLarge(
            f"the plan has {len(data)} bytes compressed, the limit is {DOCUMENT_LIMIT_BYTES}: use a larger batchSize"
        )
    chunks = [data[start : start + _CHUNK_BYTES] for start in range(0, len(data), _CHUNK_BYTES)]
    begin = f"{MARK} begin {len(chunks)} {len(data)} {hashlib.sha256(data).hexdigest()}"
    lines = [f"{MARK} {index} {base64.b64encode(chunk).decode()}" for index, chunk in enumerate(chunks)]
    return [begin, *lines, f"{MARK} end"]


def decode(log: str) -> Plan:
    """The last plan on a log that also holds other lines. Raises BrokenFrames on any gap, doubling or damage."""
    frames = [line.split(" ") for line in log.split("\n") if line.startswith(MARK + " ")]
    begins = [position for position, frame in enumerate(frames) if frame[1] == "begin"]
    if not begins:
        raise BrokenFrames("no plan on the log")
    begin, *rest = frames[begins[-1] :]
    try:
        count, size, checksum = int(begin[2]), int(begin[3]), begin[4]
        if len(rest) != count + 1 or rest[-1][1:] != ["end"] or [int(f[1]) for f in rest[:-1]] != [*range(count)]:
            raise BrokenFrames(f"{count} frames announced, {len(rest)} lines found")
        data = b"".join(base64.b64decode(frame[2], validate=True) for frame in rest[:-1])
    except (IndexError, ValueError) as error:
        raise BrokenFrames(f"damaged frame: {error}") from error
    if len(data) != size or hashlib.sha256(data).hexdigest() != checksum:
        raise BrokenFrames("checksum does not match")
    try:
        return decompress(data)
    except ValueError as error:
        raise BrokenFrames(str(error)) from error
