"""From the bytes of a data set to UTF-8 text without a mark: gzip and UTF-16 by content, the rest refused by name."""

import codecs
import zlib
from collections.abc import Iterable, Iterator

from batchrun_runner.dataset.errors import DatasetUnreadable

_GZIP = b"\x1f\x8b"
_HEAD_BYTES = 16
_BLOCK_BYTES = 1 << 20

_OTHER_FORMATS = {
    b"PK\x03\x04": "a zip archive",
    b"PAR1": "a Parquet file",
    b"BZh": "a bzip2 file",
    b"\xfd7zXZ": "an xz file",
    b"\x28\xb5\x2f\xfd": "a zstd file",
    b"ARROW1": "an Arrow file",
}


def utf8_blocks(blocks: Iterable[bytes], place: str) -> Iterator[bytes]:
    """The data set's text as UTF-8 without a byte order mark. Raises DatasetUnreadable with `place` in its message."""
    head, rest = _with_head(blocks)
    if head.startswith(_GZIP):
        head, rest = _with_head(_unzipped(rest, place))
        if head.startswith(_GZIP):
            raise DatasetUnreadable(f"{place} is compressed with gzip twice; compress it once")
    for magic, name in _OTHER_FORMATS.items():
        if head.startswith(magic):
            raise DatasetUnreadable(f"{place} is {name}; give JSON lines, plain or compressed with gzip")
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        raise DatasetUnreadable(f"{place} is UTF-32; save it as UTF-8")
    if head.startswith(codecs.BOM_UTF16_LE):
        return _from_utf16(rest, "utf-16-le", place)
    if head.startswith(codecs.BOM_UTF16_BE):
        return _from_utf16(rest, "utf-16-be", place)
    if head[1:4:2] == b"\0\0" or head[0:3:2] == b"\0\0":
        raise DatasetUnreadable(f"{place} looks like UTF-16 without a byte order mark; save it as UTF-8")
    return _without_prefix(rest, codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else rest


def _with_head(blocks: Iterable[bytes]) -> tuple[bytes, Iterator[bytes]]:
    """The first bytes, and all blocks again."""
    iterator = iter(blocks)
    head = b""
    while len(head) < _HEAD_BYTES and (block := next(iterator, None)) is not None:
        head += block

    def again() -> Iterator[bytes]:
        yield head
        yield from iterator

    return head[:_HEAD_BYTES], again()


def _without_prefix(blocks: Iterator[bytes], prefix: bytes) -> Iterator[bytes]:
    yield next(blocks)[len(prefix) :]
    yield from blocks


def _unzipped(blocks: Iterator[bytes], place: str) -> Iterator[bytes]:
    """Gzip members one after the other, unpacked a block at a time however much one byte unpacks to."""
    unpacker = zlib.decompressobj(wbits=31)
    is_inside = False
    try:
        for block in blocks:
            while block:
                if unpacker.eof:
                    block = block.lstrip(b"\0")  # noqa: PLW2901 - padding between members
                    if not block:
                        break
                    unpacker = zlib.decompressobj(wbits=31)
                yield unpacker.decompress(block, _BLOCK_BYTES)
                block = unpacker.unconsumed_tail or unpacker.unused_data  # noqa: PLW2901
            is_inside = not unpacker.eof
        while is_inside and (more := unpacker.decompress(b"", _BLOCK_BYTES)):
            yield more
    except zlib.error as error:
        raise DatasetUnreadable(f"{place}: damaged gzip data ({error}); make the file again") from error
    if is_inside and not unpacker.eof:
        raise DatasetUnreadable(f"{place}: the gzip data ends early; the file was cut, copy it again")


def _from_utf16(blocks: Iterator[bytes], encoding: str, place: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)()
    is_first = True
    try:
        for block in blocks:
            yield decoder.decode(block[2:] if is_first else block).encode()
            is_first = False
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise DatasetUnreadable(f"{place} starts as {encoding.upper()} but is damaged ({error.reason})") from error
