"""Where a data set's bytes come from."""

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit

from batchrun_api.names import DATASET_FILE, DATASET_VOLUME_DIR, ENV_DATASET_PREFIX
from batchrun_api.spec.dataset import ClaimFile, Dataset
from batchrun_api.spec.output import Output, S3Access
from batchrun_runner.dataset.encoding import utf8_blocks
from batchrun_runner.dataset.errors import DatasetUnreadable
from batchrun_runner.dataset.own_settings import RowBounds
from batchrun_runner.dataset.rows import InvalidRow, read_rows
from batchrun_runner.records import PromptRow
from batchrun_runner.storage.errors import BucketMissing, NotFound, StorageDenied, StorageError
from batchrun_runner.storage.store import ObjectStore, blocks

_BLOCK_BYTES = 1 << 20
_NO_BOUNDS = RowBounds()


@dataclass(frozen=True, slots=True)
class Source:
    """A data set that can be read, any number of times."""

    place: str
    """For messages."""
    open_blocks: Callable[[], Iterator[bytes]]
    """The bytes as stored. Raises DatasetUnreadable."""

    def rows(self, bounds: RowBounds = _NO_BOUNDS) -> Iterator[PromptRow | InvalidRow]:
        """Its rows as a stream; what asks for more than `bounds` is invalid. Raises DatasetUnreadable."""
        return read_rows(utf8_blocks(self.open_blocks(), self.place), bounds=bounds)


def source_of(
    dataset: Dataset,
    output: Output | None = None,
    *,
    config_map_file: Path = Path(DATASET_FILE),
    volume: Path = Path(DATASET_VOLUME_DIR),
) -> Source:
    """The source that a spec names. A ConfigMap's key is expected as a mounted file, a claim as a mounted `volume`.

    An s3:// data set lies in the output's store unless `dataset.s3` says something else. Raises DatasetUnreadable.
    """
    if dataset.inline is not None:
        return text_source(dataset.inline)
    if dataset.config_map_key_ref is not None:
        reference = dataset.config_map_key_ref
        return file_source(config_map_file, f"key {reference.key} of ConfigMap {reference.name}")
    if dataset.persistent_volume_claim is not None:
        return claim_source(dataset.persistent_volume_claim, volume)
    uri = dataset.uri or ""
    parts = urlsplit(uri)
    if parts.scheme == "file":
        return file_source(Path(unquote(parts.path)))
    if parts.scheme == "s3":
        return s3_source(uri, output.s3 if output and dataset.s3 == S3Access() else dataset.s3)
    return http_source(uri)


def text_source(text: str) -> Source:
    """The JSON lines themselves."""
    return Source("the inline data set", lambda: iter((text.encode("utf-8", "surrogatepass"),)))


def file_source(path: Path, place: str | None = None) -> Source:
    """A local file."""
    return Source(place or str(path), lambda: _file_blocks(path, place or str(path)))


def claim_source(claim: ClaimFile, volume: Path) -> Source:
    """A file below the folder where a claim's volume is mounted. A link that leads out of it is refused."""
    path, place = volume / claim.path, f"{claim.path} of PersistentVolumeClaim {claim.claim_name}"

    def open_blocks() -> Iterator[bytes]:
        if not path.resolve().is_relative_to(volume.resolve()):
            raise DatasetUnreadable(f"{place} is a link that leads out of the volume; put the file itself there")
        return _file_blocks(path, place)

    return Source(place, open_blocks)


def s3_source(uri: str, access: S3Access, environ: Mapping[str, str] = os.environ) -> Source:
    """`s3://bucket/key`. Keys of its own come from the environment, behind a prefix."""
    # No web address: `?` and `#` may stand in the names of objects.
    bucket, _, path = uri.removeprefix("s3://").partition("/")
    key = unquote(path.lstrip("/"))
    if not key:
        raise DatasetUnreadable(f"{uri} names a bucket and no object; write s3://bucket/path/to/prompts.jsonl")

    def open_blocks() -> Iterator[bytes]:
        from batchrun_runner.storage.s3 import S3Store, endpoint_of, keys_from  # noqa: PLC0415 - loads an S3 client

        keys = keys_from(environ, ENV_DATASET_PREFIX) if access.credentials_secret_ref else None
        with closing(S3Store(bucket, "", endpoint_of(access, keys))) as store:
            yield from _store_blocks(store, key, uri)

    return Source(uri, open_blocks)


def http_source(url: str) -> Source:
    """`https://...`; copied to a temporary file first, so that a cut connection never looks like the end."""
    place = _without_secrets(url)

    def open_blocks() -> Iterator[bytes]:
        from batchrun_runner.dataset.http import http_blocks  # noqa: PLC0415 - loads an HTTP client

        return http_blocks(url, place)

    return Source(place, open_blocks)


def _without_secrets(url: str) -> str:
    """The address without user and query: signed addresses must not end in events and logs."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _file_blocks(path: Path, place: str) -> Iterator[bytes]:
    try:
        # Opening a pipe would wait for a writer, and it could not be read again on resume.
        if not stat.S_ISREG(path.stat().st_mode) and not path.is_dir():
            raise DatasetUnreadable(f"{place} is no regular file; save the data set as one")
        with path.open("rb") as file:
            yield from _blocks_of(file)
    except FileNotFoundError as error:
        raise DatasetUnreadable(f"{place} does not exist; correct the path of the data set") from error
    except OSError as error:
        raise DatasetUnreadable(f"{place} cannot be read: {error.strerror or error}") from error


def _blocks_of(file: IO[bytes]) -> Iterator[bytes]:
    while block := file.read(_BLOCK_BYTES):
        yield block


def _store_blocks(store: ObjectStore, key: str, place: str) -> Iterator[bytes]:
    try:
        yield from blocks(store, key)
    except (BucketMissing, StorageDenied) as error:
        raise DatasetUnreadable(str(error)) from error
    except NotFound as error:
        raise DatasetUnreadable(f"{place} does not exist; correct dataset.uri") from error
    except StorageError as error:
        raise DatasetUnreadable(f"{place} cannot be read: {error}") from error
