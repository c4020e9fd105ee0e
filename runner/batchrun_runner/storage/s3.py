"""An S3 store: objects below a prefix of one bucket."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from batchrun_api.spec.output import S3Access, S3Location
from batchrun_runner.storage.errors import (
    BucketMissing,
    NotFound,
    PreconditionFailed,
    RangeMissing,
    StorageDenied,
    StorageError,
    StorageUnavailable,
)
from batchrun_runner.storage.s3_client import Endpoint, Keys, S3Caller
from batchrun_runner.storage.store import Listed, Stored, blocks, probe_conditional_writes

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef

PART_BYTES = 8 * 1024 * 1024
"""Size of the parts of a large upload; S3 refuses less than 5 MiB and more than 10,000 of them."""
_MOST_PARTS = 9_000
_UPLOAD_THREADS = 4
_READS_AT_ONCE = 16
_KEYS_OF_ONE_DELETE = 1000


class S3Store:
    """Objects below `s3://bucket/prefix/`. Passing faults are tried again with growing waits."""

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        endpoint: Endpoint = Endpoint(),  # noqa: B008 - frozen
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._caller = S3Caller(endpoint, sleep)
        self._conditional: bool | None = None

    @property
    def place(self) -> str:
        """`s3://bucket/prefix`."""
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    @property
    def reads_at_once(self) -> int:
        """As many as hide the way to the store and back."""
        return _READS_AT_ONCE

    def get(self, key: str) -> Stored:
        """See ObjectStore."""

        def read(client: "S3Client") -> Stored:
            answer = client.get_object(Bucket=self._bucket, Key=self._prefix + key)
            return Stored(_whole_body(answer, self._name(key)), answer["ETag"])

        return self._caller.call(self._name(key), read)

    def get_range(self, key: str, offset: int, length_bytes: int) -> bytes:
        """See ObjectStore."""
        if length_bytes == 0:
            return b""

        def read(client: "S3Client") -> bytes:
            answer = client.get_object(
                Bucket=self._bucket, Key=self._prefix + key, Range=f"bytes={offset}-{offset + length_bytes - 1}"
            )
            return _whole_body(answer, self._name(key))

        body = self._caller.call(self._name(key), read)
        if len(body) != length_bytes:
            raise RangeMissing(f"{self._name(key)} ends before byte {offset + length_bytes}")
        return body

    def read_into(self, key: str, offset: int, buffer: memoryview) -> None:
        """See ObjectStore."""
        buffer[:] = self.get_range(key, offset, len(buffer))

    def head(self, key: str) -> Listed | None:
        """See ObjectStore. A missing bucket is not told from a missing object here."""
        try:
            answer = self._caller.call(
                self._name(key), lambda client: client.head_object(Bucket=self._bucket, Key=self._prefix + key)
            )
        except NotFound:
            return None
        except StorageDenied as error:
            raise self._denial(key) or error from error
        return Listed(key, answer["ContentLength"], answer["ETag"])

    def _denial(self, key: str) -> StorageDenied | None:
        """The store's own words for a refusal: the answer to a HEAD has no body, so it says 403 and no more."""
        try:
            self.get_range(key, 0, 1)
        except StorageDenied as error:
            return error
        except StorageError:
            pass
        return None

    def put(
        self, key: str, body: bytes, *, if_match: str | None = None, if_none_match: bool = False, durable: bool = True
    ) -> str:
        """See ObjectStore."""
        conditions = _conditions(if_match, if_none_match)
        try:
            answer = self._caller.call(
                self._name(key),
                lambda client: client.put_object(Bucket=self._bucket, Key=self._prefix + key, Body=body, **conditions),
            )
        except NotFound as error:
            # If-Match on a key that holds nothing.
            raise (PreconditionFailed(str(error)) if if_match else BucketMissing(str(error))) from error
        return answer["ETag"]

    def listing(self, prefix: str = "") -> Iterator[Listed]:
        """See ObjectStore. Goes on while the store says that more follows, also after an empty page."""
        request: dict[str, Any] = {"Bucket": self._bucket, "Prefix": self._prefix + prefix}
        while True:
            page = self._caller.call(self.place, lambda client: client.list_objects_v2(**request))
            for item in page.get("Contents", ()):
                yield Listed(item["Key"][len(self._prefix) :], item["Size"], item["ETag"])
            if not page.get("IsTruncated"):
                return
            request["ContinuationToken"] = page["NextContinuationToken"]

    def delete(self, keys: Iterable[str]) -> None:
        """See ObjectStore."""
        left = [self._prefix + key for key in keys]
        for start in range(0, len(left), _KEYS_OF_ONE_DELETE):
            some = left[start : start + _KEYS_OF_ONE_DELETE]
            self._caller.call(self.place, lambda client, some=some: self._delete(client, some))  # type: ignore[misc]

    def _delete(self, client: "S3Client", keys: list[str]) -> None:
        answer = client.delete_objects(
            Bucket=self._bucket, Delete={"Objects": [{"Key": key} for key in keys], "Quiet": True}
        )
        for error in answer.get("Errors", ()):
            raise StorageUnavailable(f"s3://{self._bucket}/{error.get('Key')}: {error.get('Code')} at deletion")

    def download(self, key: str, path: Path) -> None:
        """See ObjectStore. Read in checked blocks, so a cut connection costs one block."""
        temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            with temporary.open("wb") as file:
                for block in blocks(self, key):
                    file.write(block)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

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
        """See ObjectStore. Large files go in parts; an upload that fails is aborted."""
        size = path.stat().st_size
        if size <= 2 * PART_BYTES:
            etag = self.put(key, path.read_bytes(), if_match=if_match, if_none_match=if_none_match)
        else:
            etag = self._upload_in_parts(path, size, key, _conditions(if_match, if_none_match))
        if consume:
            path.unlink(missing_ok=True)
        return etag

    def _upload_in_parts(self, path: Path, size_bytes: int, key: str, conditions: dict[str, Any]) -> str:
        target: dict[str, Any] = {"Bucket": self._bucket, "Key": self._prefix + key}
        name = self._name(key)
        upload_id = self._caller.call(name, lambda client: client.create_multipart_upload(**target))["UploadId"]
        part_bytes = max(PART_BYTES, -(-size_bytes // _MOST_PARTS))

        def send(number: int) -> "CompletedPartTypeDef":
            with path.open("rb") as file:
                file.seek((number - 1) * part_bytes)
                body = file.read(part_bytes)
            answer = self._caller.call(
                name,
                lambda client: client.upload_part(**target, UploadId=upload_id, PartNumber=number, Body=body),
            )
            return {"ETag": answer["ETag"], "PartNumber": number}

        try:
            with ThreadPoolExecutor(_UPLOAD_THREADS) as pool:
                parts = list(pool.map(send, range(1, -(-size_bytes // part_bytes) + 1)))
            answer = self._caller.call(
                name,
                lambda client: client.complete_multipart_upload(
                    **target, UploadId=upload_id, MultipartUpload={"Parts": parts}, **conditions
                ),
            )
        except BaseException:
            self._caller.call(name, lambda client: client.abort_multipart_upload(**target, UploadId=upload_id))
            raise
        return answer["ETag"]

    def honours_conditions(self) -> bool:
        """See ObjectStore."""
        if self._conditional is None:
            self._conditional = probe_conditional_writes(self)
        return self._conditional

    def sweep(self) -> None:
        """Abort uploads below this prefix that nobody finished: their parts cost money and show in no listing."""
        answer = self._caller.call(
            self.place,
            lambda client: client.list_multipart_uploads(Bucket=self._bucket, Prefix=self._prefix),
        )
        for upload in answer.get("Uploads", ()):
            target = {"Bucket": self._bucket, "Key": upload["Key"], "UploadId": upload["UploadId"]}
            self._caller.call(self.place, lambda client, target=target: client.abort_multipart_upload(**target))  # type: ignore[misc]

    def close(self) -> None:
        """Close the connections."""
        self._caller.close()

    def _name(self, key: str) -> str:
        return f"s3://{self._bucket}/{self._prefix}{key}"


def endpoint_of(access: S3Access, keys: Keys | None = None) -> Endpoint:
    """The endpoint that a spec describes; without `keys` credentials come by the provider chain."""
    return Endpoint(access.endpoint_url, access.region, access.force_path_style, keys=keys)


def keys_from(environ: Mapping[str, str], prefix: str) -> Keys | None:
    """AWS_* behind a prefix; None where they are not set."""
    access_key, secret_key = environ.get(f"{prefix}AWS_ACCESS_KEY_ID"), environ.get(f"{prefix}AWS_SECRET_ACCESS_KEY")
    if not access_key or not secret_key:
        return None
    return Keys(access_key, secret_key, environ.get(f"{prefix}AWS_SESSION_TOKEN") or None)


def run_store(location: S3Location, run_name: str) -> S3Store:
    """The store of one run: `s3://bucket/prefix/runName/`."""
    return S3Store(location.bucket, f"{location.prefix}/{run_name}", endpoint_of(location))


def _conditions(if_match: str | None, if_none_match: bool) -> dict[str, Any]:
    return ({"IfMatch": if_match} if if_match else {}) | ({"IfNoneMatch": "*"} if if_none_match else {})


def _whole_body(answer: Any, name: str) -> bytes:
    # Not `with`: that would hand out the raw stream, which knows nothing of lengths and of botocore's errors.
    with closing(answer["Body"]) as stream:
        body: bytes = stream.read()
    if len(body) != answer["ContentLength"]:
        raise StorageUnavailable(f"{name}: {len(body)} of {answer['ContentLength']} bytes arrived")
    return body
