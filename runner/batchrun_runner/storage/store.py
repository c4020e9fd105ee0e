"""The interface of a store of objects, and what can be said about any of them."""

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from batchrun_runner.storage.errors import PreconditionFailed, StorageError

READ_BLOCK_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Listed:
    """One object in a listing. The etag changes with every write of the object."""

    key: str
    size_bytes: int
    etag: str


@dataclass(frozen=True, slots=True)
class Stored:
    """A whole object."""

    body: bytes
    etag: str


class ObjectStore(Protocol):
    """Objects below one place (a run's folder). Keys are relative to it, with `/` between their parts.

    No half object is ever visible. Methods raise `storage.errors` only, and may be called from several threads.
    """

    @property
    def place(self) -> str:
        """Where this is, for messages: a path, or `s3://bucket/prefix`."""
        ...

    @property
    def reads_at_once(self) -> int:
        """How many reads at a time pay off: 1 where they cost no waiting."""
        ...

    def get(self, key: str) -> Stored:
        """The whole object. Raises NotFound."""
        ...

    def get_range(self, key: str, offset: int, length_bytes: int) -> bytes:
        """Exactly `length_bytes` bytes from `offset`. Raises NotFound, and RangeMissing where the object is shorter."""
        ...

    def read_into(self, key: str, offset: int, buffer: memoryview) -> None:
        """Fill the buffer with the bytes from `offset`: for who reads much, and keeps its buffers. Raises as
        `get_range` does; the buffer may have been written to then.
        """
        ...

    def head(self, key: str) -> Listed | None:
        """Size and etag; None where there is no such object."""
        ...

    def put(
        self, key: str, body: bytes, *, if_match: str | None = None, if_none_match: bool = False, durable: bool = True
    ) -> str:
        """Write the whole object and return its etag.

        `if_match`: only over the version with this etag; `if_none_match`: only where there is none yet. Both raise
        PreconditionFailed on a store that honours them; see `honours_conditions`.
        `durable=False`: it can be made again, so the disk need not have it before this returns.
        """
        ...

    def listing(self, prefix: str = "") -> Iterator[Listed]:
        """Every object whose key starts with `prefix`, in the order of keys, however many there are."""
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects. One that is not there is no error."""
        ...

    def download(self, key: str, path: Path) -> None:
        """Copy an object into a file; the file appears only when it is whole. Raises NotFound."""
        ...

    def upload(
        self,
        path: Path,
        key: str,
        *,
        if_match: str | None = None,
        if_none_match: bool = False,
        consume: bool = False,
        durable: bool = True,
    ) -> str:
        """Write a file as an object and return its etag; conditions as for `put`.

        `consume`: the file may be moved instead of copied. `durable` as for `put`.
        """
        ...

    def honours_conditions(self) -> bool:
        """Whether conditional writes really are conditional here. Asked once, then known."""
        ...

    def sweep(self) -> None:
        """Remove what killed writers left behind: temporary files, unfinished uploads."""
        ...


def probe_conditional_writes(store: ObjectStore) -> bool:
    """Try both conditions on an object of our own: some stores refuse them, some ignore them in silence."""
    key = f"probe-{secrets.token_hex(8)}"
    try:
        etag = store.put(key, b"1", if_none_match=True, durable=False)
        return (
            _is_refused(store, key, if_none_match=True)
            and _is_refused(store, key, if_match='"00000000000000000000000000000000"')
            and bool(store.put(key, b"2", if_match=etag, durable=False))
        )
    except StorageError:
        return False
    finally:
        store.delete([key])


def _is_refused(store: ObjectStore, key: str, *, if_match: str | None = None, if_none_match: bool = False) -> bool:
    try:
        store.put(key, b"3", if_match=if_match, if_none_match=if_none_match, durable=False)
    except PreconditionFailed:
        return True
    return False


def put_version(store: ObjectStore, key: str, body: bytes, *, replaces: str | None, durable: bool = True) -> str:
    """Write over the version with the etag `replaces` (None: where nothing is yet), as far as the store can tell.

    Raises PreconditionFailed where it can and the version is another one.
    """
    if not store.honours_conditions():
        return store.put(key, body, durable=durable)
    return store.put(key, body, if_match=replaces, if_none_match=replaces is None, durable=durable)


def upload_version(store: ObjectStore, path: Path, key: str, *, replaces: str | None) -> str:
    """`put_version` for a file, which is consumed."""
    if not store.honours_conditions():
        return store.upload(path, key, consume=True)
    return store.upload(path, key, if_match=replaces, if_none_match=replaces is None, consume=True)


def blocks(store: ObjectStore, key: str, *, block_bytes: int = READ_BLOCK_BYTES) -> Iterator[bytes]:
    """The object in blocks. Each is its own checked request, so a cut connection costs one block.

    Raises NotFound, and RangeMissing where the object is replaced by a shorter one meanwhile.
    """
    head = store.head(key)
    if head is None:
        # Lets the adapter say what is wrong, in its words.
        yield store.get(key).body
        return
    for offset in range(0, head.size_bytes, block_bytes):
        yield store.get_range(key, offset, min(block_bytes, head.size_bytes - offset))
