"""A data set from a web address. Importing this loads an HTTP client, which other data sets need not wait for."""

import tempfile
from collections.abc import Iterator
from typing import IO

import httpx2 as httpx

from batchrun_runner.dataset.errors import DatasetUnreadable

_BLOCK_BYTES = 1 << 20
_ATTEMPTS = 4
_TIMEOUT_SECONDS = 60.0


def http_blocks(url: str, place: str) -> Iterator[bytes]:
    """The bytes at `url`, whole: a cut connection never looks like the end. Raises DatasetUnreadable."""
    with tempfile.TemporaryFile() as file:
        for attempt in range(_ATTEMPTS):
            file.seek(0)
            file.truncate()
            try:
                _download(url, file)
                break
            except httpx.HTTPStatusError as error:
                status = error.response.status_code
                if status < 500 or attempt == _ATTEMPTS - 1:
                    raise DatasetUnreadable(f"{place} answers {status}; correct dataset.uri or its access") from error
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                if not isinstance(error, httpx.TransportError) or attempt == _ATTEMPTS - 1:
                    raise DatasetUnreadable(f"{place} cannot be read: {type(error).__name__}: {error}") from error
        file.seek(0)
        while block := file.read(_BLOCK_BYTES):
            yield block


def _download(url: str, file: IO[bytes]) -> None:
    # identity: what a server compresses on the way must not look like a data set that is gzip itself.
    with httpx.stream(
        "GET", url, follow_redirects=True, timeout=_TIMEOUT_SECONDS, headers={"accept-encoding": "identity"}
    ) as response:
        response.raise_for_status()
        for block in response.iter_bytes(_BLOCK_BYTES):
            file.write(block)
