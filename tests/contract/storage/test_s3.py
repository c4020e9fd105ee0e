"""What only S3 stores get wrong, on a real server behind a proxy that injects the faults of the field reports."""

from collections.abc import Iterator

import pytest
from tests.contract.storage.proxy import CUT, Answer, FaultProxy, Request
from tests.contract.storage.server import S3Server

from batchrun_api.conditions import Reason
from batchrun_api.spec.output import S3Access, S3Location
from batchrun_runner.dataset.errors import DatasetUnreadable
from batchrun_runner.dataset.sources import s3_source
from batchrun_runner.storage.errors import (
    BucketMissing,
    CredentialsInvalid,
    PreconditionFailed,
    StorageDenied,
    StorageUnavailable,
)
from batchrun_runner.storage.s3 import S3Store, run_store
from batchrun_runner.storage.s3_client import ATTEMPTS, Endpoint, make_client


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def behind_proxy(s3_server: S3Server, proxy: FaultProxy, waits: list[float]) -> Iterator[S3Store]:
    store = S3Store(s3_server.new_bucket(), "runs/r", Endpoint(proxy.url), sleep=waits.append)
    yield store
    store.close()


def test_e01_no_checksum_headers_or_trailers_at_a_custom_endpoint(behind_proxy: S3Store, proxy: FaultProxy) -> None:
    def refuse(request: Request) -> Answer | None:
        new = [
            name
            for name in request.headers
            if name.startswith(("x-amz-checksum", "x-amz-sdk-checksum", "x-amz-trailer"))
        ]
        return Answer(400, "InvalidArgument") if new else None

    proxy.rule = refuse
    behind_proxy.put("a", b"x")
    behind_proxy.put("b", b"x")
    behind_proxy.delete(["a", "b"])
    assert list(behind_proxy.listing()) == []


def test_e01_checksums_can_be_switched_on(s3_server: S3Server, proxy: FaultProxy) -> None:
    store = S3Store(s3_server.new_bucket(), "", Endpoint(proxy.url, checksums="when_supported"))
    store.put("a", b"x")
    store.close()
    assert any(name.startswith("x-amz-checksum-") for request in proxy.seen for name in request.headers)


def test_e03_slow_down_is_waited_out_with_growing_waits(
    behind_proxy: S3Store, proxy: FaultProxy, waits: list[float]
) -> None:
    proxy.first(6, Answer(503, "SlowDown"), "PUT")
    behind_proxy.put("a", b"x")
    assert len(waits) == 6
    assert waits[5] > waits[0]
    proxy.first(3, Answer(503, "SlowDown"), "GET", "list-type")
    assert [item.key for item in behind_proxy.listing()] == ["a"]


def test_e03_overload_without_end_is_given_up(behind_proxy: S3Store, proxy: FaultProxy, waits: list[float]) -> None:
    proxy.rule = lambda request: Answer(503, "SlowDown")
    with pytest.raises(StorageUnavailable, match="SlowDown") as caught:
        behind_proxy.put("a", b"x")
    assert caught.value.reason is Reason.STORAGE_UNAVAILABLE
    assert len(waits) == ATTEMPTS - 1


def test_e04_path_style_at_a_custom_endpoint_and_as_the_spec_says() -> None:
    location = S3Location(bucket="my.runs", prefix="a/b", endpoint_url="http://minio.ns.svc:9000", region="eu-1")
    store = run_store(location, "first_run")
    assert store.place == "s3://my.runs/a/b/first_run"
    store.close()
    for endpoint, expected in (
        (Endpoint("http://minio.ns.svc:9000"), "http://minio.ns.svc:9000/runs"),
        (Endpoint("http://minio.ns.svc:9000", force_path_style=False), "http://runs.minio.ns.svc:9000/"),
    ):
        client = make_client(endpoint)
        url = client.generate_presigned_url("list_objects_v2", Params={"Bucket": "runs"})
        client.close()
        assert url.startswith(expected)


def test_e05_expired_credentials_are_read_again_once(
    behind_proxy: S3Store, proxy: FaultProxy, waits: list[float]
) -> None:
    proxy.first(1, Answer(400, "ExpiredToken"), "PUT")
    behind_proxy.put("a", b"x")
    assert waits == []
    proxy.rule = lambda request: Answer(400, "ExpiredToken")
    with pytest.raises(CredentialsInvalid) as caught:
        behind_proxy.put("a", b"x")
    assert caught.value.reason is Reason.INVALID_CREDENTIALS


def test_e06_a_cut_body_is_read_again_from_the_start(behind_proxy: S3Store, proxy: FaultProxy) -> None:
    body = bytes(range(250)) * 40
    behind_proxy.put("a", body)
    proxy.first(2, CUT, "GET")
    assert behind_proxy.get("a").body == body
    proxy.first(1, CUT, "GET")
    assert behind_proxy.get_range("a", 10, 5000) == body[10:5010]


def test_e06_unfinished_uploads_are_swept(s3_store: S3Store, s3_server: S3Server) -> None:
    bucket = s3_store.place.split("/")[2]
    client = s3_server.client()
    client.create_multipart_upload(Bucket=bucket, Key="some/run/trajectories.jsonl")
    client.create_multipart_upload(Bucket=bucket, Key="another/run/trajectories.jsonl")
    s3_store.sweep()
    left = client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    client.close()
    assert [upload["Key"] for upload in left] == ["another/run/trajectories.jsonl"]


def test_d13_a_skewed_clock_is_named(behind_proxy: S3Store, proxy: FaultProxy) -> None:
    proxy.rule = lambda request: Answer(403, "RequestTimeTooSkewed")
    with pytest.raises(StorageUnavailable, match="RequestTimeTooSkewed"):
        behind_proxy.put("a", b"x")


def test_a_data_set_is_read_from_a_bucket_and_a_missing_one_is_named(s3_store: S3Store, s3_server: S3Server) -> None:
    access = S3Access(endpoint_url=s3_server.url)
    s3_store.put("my data.jsonl", b'{"prompt":"p1"}\n{"prompt":"p2"}\n')
    bucket = s3_store.place.split("/")[2]
    assert len(list(s3_source(f"s3://{bucket}/some/run/my%20data.jsonl", access).rows())) == 2
    with pytest.raises(DatasetUnreadable, match=r"no.jsonl does not exist; correct dataset.uri"):
        list(s3_source(f"s3://{bucket}/no.jsonl", access).rows())
    with pytest.raises(DatasetUnreadable, match="create the bucket"):
        list(s3_source("s3://no-such-bucket/no.jsonl", access).rows())


def test_a_server_that_cannot_be_reached_is_tried_again_and_then_named(waits: list[float]) -> None:
    store = S3Store("runs", "r", Endpoint("http://127.0.0.1:9"), sleep=waits.append)
    with pytest.raises(StorageUnavailable, match="Could not connect"):
        store.get("a")
    store.close()
    assert len(waits) == ATTEMPTS - 1


def test_a_bucket_that_is_not_there_is_named_with_the_fix(s3_server: S3Server) -> None:
    store = S3Store("no-such-bucket", "r", Endpoint(s3_server.url))
    for action in (lambda: store.get("a"), lambda: store.put("a", b""), lambda: list(store.listing())):
        with pytest.raises(BucketMissing, match=r"no-such-bucket.*create the bucket") as caught:
            action()
        assert caught.value.reason is Reason.BUCKET_MISSING
    store.close()


def test_wrong_keys_and_missing_rights_are_told_apart(behind_proxy: S3Store, proxy: FaultProxy) -> None:
    proxy.rule = lambda request: Answer(403, "SignatureDoesNotMatch")
    with pytest.raises(CredentialsInvalid):
        behind_proxy.get("a")
    proxy.rule = lambda request: Answer(403, "AccessDenied")
    with pytest.raises(StorageDenied) as caught:
        behind_proxy.get("a")
    assert caught.value.reason is Reason.STORAGE_DENIED


def test_a_store_that_ignores_conditions_is_found_out(behind_proxy: S3Store, proxy: FaultProxy) -> None:
    proxy.rule = lambda request: Answer(501, "NotImplemented") if "if-none-match" in request.headers else None
    assert not behind_proxy.honours_conditions()
    assert list(behind_proxy.listing()) == []


def test_a_lost_answer_of_a_conditional_write_is_a_lost_race_to_be_read_again(
    behind_proxy: S3Store, proxy: FaultProxy
) -> None:
    behind_proxy.put("owner.json", b"ours", if_none_match=True)
    with pytest.raises(PreconditionFailed):
        behind_proxy.put("owner.json", b"ours", if_none_match=True)
    assert behind_proxy.get("owner.json").body == b"ours"
