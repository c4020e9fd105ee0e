"""The client of an S3 store: how it is made, what its errors mean, and what is tried again."""

import base64
import hashlib
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar, cast
from urllib.parse import urlsplit

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
    ResponseStreamingError,
)
from botocore.exceptions import ConnectionError as ConnectionFault

from batchrun_runner.storage.errors import (
    BucketMissing,
    CredentialsInvalid,
    NotFound,
    PreconditionFailed,
    RangeMissing,
    StorageDenied,
    StorageError,
    StorageUnavailable,
)

if TYPE_CHECKING:
    from botocore.awsrequest import AWSRequest
    from mypy_boto3_s3 import S3Client

T = TypeVar("T")

ATTEMPTS = 8
_FIRST_WAIT_SECONDS = 0.2
_LONGEST_WAIT_SECONDS = 10.0

_NETWORK = (ConnectionFault, HTTPClientError, IncompleteReadError, ResponseStreamingError)
_NOT_FOUND = {"NoSuchKey", "NotFound", "404"}
_PRECONDITION = {"PreconditionFailed", "412", "ConditionalRequestConflict"}
_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "InvalidToken"}
_CREDENTIALS = {
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
    "XAdminUserNotFound",  # versitygw's word for an unknown access key
} | _EXPIRED
_DENIED = {"AccessDenied", "AllAccessDisabled", "AccountProblem", "Forbidden", "403"}
_MEND_KEYS = "correct the keys in credentialsSecretRef or in the environment"
_MEND_RIGHTS = "the credentials need get for a data set, and list, get, put and delete below the output's prefix"
_RETRYABLE = {
    "SlowDown",
    "ServiceUnavailable",
    "InternalError",
    "OperationAborted",
    "RequestTimeout",
    "RequestTimeTooSkewed",
    "Throttling",
    "ThrottlingException",
    "TooManyRequests",
    "TooManyRequestsException",
}
_RETRYABLE_STATUS = {429, 500, 502, 503, 504}


class Keys(NamedTuple):
    """Static credentials."""

    access_key: str
    secret_key: str
    session_token: str | None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How to reach a store. None everywhere: Amazon S3 by the provider chain."""

    url: str | None = None
    region: str | None = None
    force_path_style: bool | None = None
    checksums: Literal["when_required", "when_supported"] | None = None
    """None: when_required at a custom endpoint (many refuse what newer SDKs send), else the SDK's own rule."""
    keys: "Keys | None" = field(default=None, repr=False)
    """None: the provider chain."""


class S3Caller:
    """Calls one client with our rule of what is tried again. Safe for threads."""

    def __init__(self, endpoint: Endpoint, sleep: Callable[[float], None] = time.sleep) -> None:
        self._endpoint = endpoint
        self._sleep = sleep
        self._client = make_client(endpoint)

    def call(self, what: str, action: Callable[["S3Client"], T]) -> T:
        """Run `action`, again after a passing fault. `what` names the object in errors."""
        renewed = False
        for attempt in range(ATTEMPTS):
            try:
                return action(self._client)
            except (ClientError, BotoCoreError, StorageUnavailable) as error:
                problem = translated(error, what)
                if isinstance(problem, CredentialsInvalid) and not renewed and _code(error) in _EXPIRED:
                    # Short-lived keys from a file or a role may have been replaced: a new client reads them anew.
                    renewed = True
                    self._client = make_client(self._endpoint)
                    continue
                if not isinstance(problem, StorageUnavailable) or attempt == ATTEMPTS - 1:
                    raise problem from error
            longest = min(_LONGEST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2**attempt)
            self._sleep(longest * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def make_client(endpoint: Endpoint) -> "S3Client":
    """A client with our settings; path style and few checksums where the endpoint is not Amazon's."""
    client = _client(endpoint, is_custom=endpoint.url is not None)
    if endpoint.url is None and not _is_amazon(client.meta.endpoint_url):
        # The endpoint came from the environment or a profile.
        client.close()
        client = _client(endpoint, is_custom=True)
    return client


def _client(endpoint: Endpoint, *, is_custom: bool) -> "S3Client":
    """The client itself."""
    styles: dict[bool | None, Literal["path", "virtual", "auto"]] = {
        True: "path",
        False: "virtual",
        None: "path" if is_custom else "auto",
    }
    checksums = endpoint.checksums or ("when_required" if is_custom else None)
    core = botocore.session.get_session()
    # Nobody here asks when an object was changed, and reading such times is half of the work of a long listing.
    core.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=str)
    session = boto3.Session(botocore_session=core)
    keys = endpoint.keys
    client: S3Client = session.client(
        "s3",
        endpoint_url=endpoint.url,
        aws_access_key_id=keys.access_key if keys else None,
        aws_secret_access_key=keys.secret_key if keys else None,
        aws_session_token=keys.session_token if keys else None,
        region_name=endpoint.region or session.region_name or ("us-east-1" if is_custom else None),
        config=Config(
            s3={"addressing_style": styles[endpoint.force_path_style]},
            request_checksum_calculation=checksums,
            response_checksum_validation=checksums,
            # S3Caller does the retries: one rule for requests, bodies and parts.
            retries={"mode": "standard", "total_max_attempts": 1},
            max_pool_connections=32,
            connect_timeout=10,
            read_timeout=60,
            signature_version="s3v4",
        ),
    )
    if is_custom:
        client.meta.events.register("before-sign.s3.DeleteObjects", _sign_body_the_old_way)
    return client


def _sign_body_the_old_way(request: "AWSRequest", **_: object) -> None:
    """Bulk deletes need a checksum of their body: MD5 is the one that every S3-compatible store takes."""
    for name in [
        name for name in request.headers if name.lower().startswith(("x-amz-checksum-", "x-amz-sdk-checksum-"))
    ]:
        del request.headers[name]
    body = cast("bytes | str", request.body)
    digest = hashlib.md5(body if isinstance(body, bytes) else body.encode(), usedforsecurity=False).digest()
    request.headers["Content-MD5"] = base64.b64encode(digest).decode()


def _is_amazon(url: str) -> bool:
    return (urlsplit(url).hostname or "").endswith((".amazonaws.com", ".amazonaws.com.cn"))


def translated(error: Exception, what: str) -> StorageError:
    """The error as one of ours."""
    if isinstance(error, StorageError):
        return error
    if isinstance(error, ClientError):
        return _from_answer(error, what)
    if isinstance(error, NoCredentialsError | PartialCredentialsError | CredentialRetrievalError):
        return CredentialsInvalid(f"{what}: {error}; give credentialsSecretRef or a service account with a role")
    if isinstance(error, _NETWORK):
        return StorageUnavailable(f"{what}: {error}")
    return StorageError(f"{what}: {error}")


def _code(error: Exception) -> str:
    return str(error.response.get("Error", {}).get("Code", "")) if isinstance(error, ClientError) else ""


def _from_answer(error: ClientError, what: str) -> StorageError:
    code = _code(error)
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    said = f"{what}: {code}: {error.response.get('Error', {}).get('Message', '')}".rstrip(": ")
    if code == "NoSuchBucket":
        return BucketMissing(f"{said}; create the bucket or correct its name")
    if code in _NOT_FOUND:
        return NotFound(said)
    if code in _PRECONDITION:
        return PreconditionFailed(said)
    if code in {"InvalidRange", "416"}:
        return RangeMissing(said)
    if code in _CREDENTIALS:
        return CredentialsInvalid(f"{said}; {_MEND_KEYS}")
    if code == "403":  # no body, so nobody knows more
        return StorageDenied(f"{said}; either the keys are wrong ({_MEND_KEYS}), or {_MEND_RIGHTS}")
    if code in _DENIED:
        return StorageDenied(f"{said}; {_MEND_RIGHTS}")
    if code in _RETRYABLE or status in _RETRYABLE_STATUS:
        return StorageUnavailable(said)
    return StorageError(said)
