"""What only S3 stores get wrong, on a real server behind a proxy that injects the faults of the field reports."""

import gzip
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.storage.proxy import CUT, Answer, FaultProxy, Page, Request
from tests.contract.storage.server import S3Server
from tests.unit.data.support import Run

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


def test_e02_an_empty_page_that_says_more_follows_is_not_the_end(behind_proxy: S3Store, proxy: FaultProxy) -> None:
    names = [f"batch_{number}.jsonl" for number in range(5)]
    for name in names:
        behind_proxy.put(name, b"x")
    asked = []

    def pages_of_two(request: Request) -> Answer | None:
        if request.method != "GET" or "list-type" not in request.path:
            return None
        asked.append(request.path)
        start = 2 * (len(asked) - 2)
        page = names[start : start + 2] if len(asked) > 1 else []
        items = "".join(f"<Contents><Key>runs/r/{name}</Key><Size>1</Size><ETag>e</ETag></Contents>" for name in page)
        more = start + 2 < len(names)
        rest = "<NextContinuationToken>more</NextContinuationToken>" if more else ""
        return Page(f"<IsTruncated>{str(more).lower()}</IsTruncated>{rest}{items}")

    proxy.rule = pages_of_two
    assert [item.key for item in behind_proxy.listing("batch_")] == names
    assert len(asked) == 4


def test_e02_e03_many_batch_files_written_under_overload_are_all_merged_in_order(
    behind_proxy: S3Store, proxy: FaultProxy, waits: list[float], tmp_path: Path
) -> None:
    run = Run(behind_proxy, tmp_path, {"batchSize": 1})
    prompts = [f"prompt {number}" for number in range(12)]
    outcome = run.plan(prompts)
    proxy.first(6, Answer(503, "SlowDown"), "PUT")
    run.work(outcome, outcome.plan.batches[0])
    assert len(waits) == 6
    for batch in outcome.plan.batches[1:]:
        run.work(outcome, batch)
    proxy.first(3, Answer(503, "SlowDown"), "GET", "list-type")
    assert run.merge(outcome).result.completed == 12
    assert run.prompts() == prompts
    assert run.asked == prompts, "no answer is paid for twice"


def test_e03_a_prompt_whose_upload_fails_is_not_done(behind_proxy: S3Store, proxy: FaultProxy, tmp_path: Path) -> None:
    run = Run(behind_proxy, tmp_path)
    outcome = run.plan(["prompt 0"])
    proxy.rule = lambda request: Answer(503, "SlowDown") if request.method == "PUT" else None
    with pytest.raises(StorageUnavailable, match="SlowDown"):
        run.work(outcome, outcome.plan.batches[0])
    proxy.rule = lambda request: None
    assert run.plan(["prompt 0"]).plan.counts.to_run == 1


def test_e05_a_token_that_was_replaced_meanwhile_is_read_anew_and_a_long_upload_goes_on(
    s3_server: S3Server, proxy: FaultProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = tmp_path / "credentials"

    def write_keys(key: str) -> None:
        credentials.write_text(f"[default]\naws_access_key_id={key}\naws_secret_access_key={secret_key}\n")

    access_key, secret_key = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
    bucket = s3_server.new_bucket()
    write_keys("expired")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
    store = S3Store(bucket, "", Endpoint(proxy.url))

    def expired(request: Request) -> Answer | None:
        if "Credential=expired/" not in request.headers["authorization"]:
            return None
        write_keys(access_key)
        return Answer(400, "ExpiredToken")

    proxy.rule = expired
    store.put("a", b"result")
    assert store.get("a").body == b"result"
    store.close()


def test_a_data_set_in_a_bucket_is_plain_or_gzip_by_content_and_never_taken_for_shorter(
    behind_proxy: S3Store, proxy: FaultProxy
) -> None:
    body = b"".join(b'{"prompt":"p%d"}\n' % number for number in range(1000))
    behind_proxy.put("plain.gz", body)
    behind_proxy.put("packed.jsonl", gzip.compress(body))
    bucket = behind_proxy.place.split("/")[2]
    for name in ("plain.gz", "packed.jsonl"):
        proxy.first(2, CUT, "GET", name)
        rows = list(s3_source(f"s3://{bucket}/runs/r/{name}", S3Access(endpoint_url=proxy.url)).rows())
        assert len(rows) == 1000


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
    s3_store.put("part?x=1#2.jsonl", b'{"prompt":"p1"}\n')
    assert len(list(s3_source(f"s3://{bucket}/some/run/part?x=1#2.jsonl", access).rows())) == 1
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


def test_a_data_set_behind_wrong_keys_is_said_as_the_runs_own_store_says_it(
    s3_store: S3Store, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    s3_store.put("a.jsonl", b'{"prompt":"p1"}\n')
    bucket = s3_store.place.split("/")[2]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    with pytest.raises(DatasetUnreadable, match=r"a\.jsonl: .*correct the keys in credentialsSecretRef") as caught:
        list(s3_source(f"s3://{bucket}/some/run/a.jsonl", S3Access(endpoint_url=s3_server.url)).rows())
    store = S3Store(bucket, "some/run", Endpoint(s3_server.url))
    with pytest.raises(CredentialsInvalid) as own:
        store.get("a.jsonl")
    store.close()
    assert str(caught.value) == str(own.value)


def test_a_refusal_without_words_names_wrong_keys_and_missing_rights(behind_proxy: S3Store, proxy: FaultProxy) -> None:
    behind_proxy.put("a", b"x")
    proxy.rule = lambda request: Answer(403, "") if request.method == "HEAD" else None
    with pytest.raises(StorageDenied, match=r"403.*the keys are wrong \(correct the keys.*the credentials need get"):
        behind_proxy.head("a")


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
