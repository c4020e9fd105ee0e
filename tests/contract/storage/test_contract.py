"""What every store must do. Each test runs on a folder and on a real S3 server."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from batchrun_runner.storage.errors import NotFound, PreconditionFailed, RangeMissing
from batchrun_runner.storage.s3 import PART_BYTES
from batchrun_runner.storage.store import ObjectStore, blocks


def keys(store: ObjectStore, prefix: str = "") -> list[str]:
    return [item.key for item in store.listing(prefix)]


def test_what_was_put_is_got_with_the_same_etag(store: ObjectStore) -> None:
    etag = store.put("a/b.json", b"one\ntwo")
    got = store.get("a/b.json")
    assert (got.body, got.etag) == (b"one\ntwo", etag)
    head = store.head("a/b.json")
    assert head is not None
    assert (head.key, head.size_bytes, head.etag) == ("a/b.json", 7, etag)


def test_an_empty_object_exists(store: ObjectStore) -> None:
    store.put("started", b"")
    assert store.get("started").body == b""
    assert [(item.key, item.size_bytes) for item in store.listing()] == [("started", 0)]


def test_what_is_not_there_is_not_found(store: ObjectStore, tmp_path: Path) -> None:
    assert store.head("nothing") is None
    with pytest.raises(NotFound):
        store.get("nothing")
    with pytest.raises(NotFound):
        store.get_range("nothing", 0, 1)
    with pytest.raises(NotFound):
        store.download("nothing", tmp_path / "file")
    assert not (tmp_path / "file").exists()


def test_every_write_makes_another_etag(store: ObjectStore) -> None:
    assert store.put("a", b"1") != store.put("a", b"2")


def test_ranges_are_exact_and_never_shorter_than_asked_for(store: ObjectStore) -> None:
    store.put("a", b"0123456789")
    assert store.get_range("a", 0, 10) == b"0123456789"
    assert store.get_range("a", 3, 4) == b"3456"
    assert store.get_range("a", 4, 0) == b""
    with pytest.raises(RangeMissing):
        store.get_range("a", 8, 3)
    with pytest.raises(RangeMissing):
        store.get_range("a", 20, 1)


def test_a_buffer_is_filled_to_its_end_or_the_range_is_missing(store: ObjectStore) -> None:
    store.put("a", b"0123456789")
    buffer = bytearray(b"......")
    store.read_into("a", 3, memoryview(buffer)[1:5])
    assert buffer == b".3456."
    with pytest.raises(RangeMissing):
        store.read_into("a", 8, memoryview(buffer)[:3])
    with pytest.raises(NotFound):
        store.read_into("nothing", 0, memoryview(buffer))


def test_blocks_put_an_object_together_again(store: ObjectStore) -> None:
    store.put("a", b"0123456789")
    assert list(blocks(store, "a", block_bytes=4)) == [b"0123", b"4567", b"89"]
    store.put("empty", b"")
    assert b"".join(blocks(store, "empty")) == b""
    with pytest.raises(NotFound):
        list(blocks(store, "nothing"))


def test_a_listing_holds_what_starts_with_the_prefix_in_order_of_keys(store: ObjectStore) -> None:
    for key in ("batch_10.jsonl", "batch_9.jsonl", "ledger/batch_9.jsonl", "parts/batch_1/k-0-0.w", "batches", "z"):
        store.put(key, b"x")
    assert keys(store, "batch_") == ["batch_10.jsonl", "batch_9.jsonl"]
    assert keys(store, "ledger/") == ["ledger/batch_9.jsonl"]
    assert keys(store, "parts/batch_1") == ["parts/batch_1/k-0-0.w"]
    assert keys(store, "nothing/") == []
    assert keys(store) == sorted(keys(store))
    assert len(keys(store)) == 6


def test_e02_a_listing_goes_on_beyond_a_thousand_keys(store: ObjectStore) -> None:
    names = [f"batch_{number}.jsonl" for number in range(1203)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: store.put(name, b"x"), names))
    assert sorted(keys(store, "batch_")) == sorted(names)
    store.delete(names)
    assert keys(store) == []


def test_deleting_what_is_not_there_is_no_error(store: ObjectStore) -> None:
    store.put("parts/a", b"x")
    store.put("parts/b", b"x")
    store.delete(["parts/a", "parts/never"])
    store.delete([])
    assert keys(store) == ["parts/b"]


def test_a_conditional_write_loses_against_a_newer_version(store: ObjectStore) -> None:
    first = store.put("checkpoint.json", b"1", if_none_match=True)
    with pytest.raises(PreconditionFailed):
        store.put("checkpoint.json", b"2", if_none_match=True)
    second = store.put("checkpoint.json", b"2", if_match=first)
    with pytest.raises(PreconditionFailed):
        store.put("checkpoint.json", b"3", if_match=first)
    assert store.get("checkpoint.json").body == b"2"
    assert store.get("checkpoint.json").etag == second


def test_a_condition_on_a_version_of_nothing_fails(store: ObjectStore) -> None:
    with pytest.raises(PreconditionFailed):
        store.put("nothing", b"1", if_match='"0123456789abcdef0123456789abcdef"')
    assert store.head("nothing") is None


def test_the_probe_finds_that_conditions_are_honoured_and_leaves_nothing(store: ObjectStore) -> None:
    assert store.honours_conditions()
    assert keys(store) == []


def test_of_many_conditional_writers_each_adds_once(store: ObjectStore) -> None:
    store.put("counter", b"")
    barrier = threading.Barrier(4)

    def add(name: bytes) -> None:
        barrier.wait()
        for _ in range(3):
            while True:
                current = store.get("counter")
                try:
                    store.put("counter", current.body + name, if_match=current.etag)
                    break
                except PreconditionFailed:
                    continue

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, [b"a", b"b", b"c", b"d"]))
    assert sorted(store.get("counter").body) == sorted(b"aaabbbcccddd")


def test_a_file_goes_up_and_comes_down_unchanged(store: ObjectStore, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"x" * 100_000)
    etag = store.upload(source, "a/file")
    assert source.exists()
    store.download("a/file", target)
    assert target.read_bytes() == source.read_bytes()
    head = store.head("a/file")
    assert head is not None
    assert (head.size_bytes, head.etag) == (100_000, etag)
    with pytest.raises(PreconditionFailed):
        store.upload(source, "a/file", if_none_match=True)
    store.upload(source, "a/file", if_match=etag, consume=True)
    assert not source.exists()
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["target"]


def test_a_large_file_goes_up_whole(store: ObjectStore, tmp_path: Path) -> None:
    size = 2 * PART_BYTES + 1234
    source = tmp_path / "source"
    source.write_bytes(bytes(range(256)) * (size // 256) + b"!" * (size % 256))
    store.upload(source, "trajectories.jsonl", if_none_match=True)
    store.download("trajectories.jsonl", tmp_path / "target")
    assert (tmp_path / "target").read_bytes() == source.read_bytes()
    with pytest.raises(PreconditionFailed):
        store.upload(source, "trajectories.jsonl", if_none_match=True)
    store.sweep()
    assert keys(store) == ["trajectories.jsonl"]


def test_e07_two_writers_of_own_objects_lose_nothing(store: ObjectStore) -> None:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda writer: store.put(f"parts/batch_0/k-0-0.{writer}", writer.encode()), ["old", "new"]))
    assert keys(store, "parts/") == ["parts/batch_0/k-0-0.new", "parts/batch_0/k-0-0.old"]
