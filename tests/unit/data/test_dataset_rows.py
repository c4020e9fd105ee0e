"""Reading data sets: the field reports a01 to a08, and what every reader of JSON lines gets wrong sooner or later."""

import codecs
import gzip
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from batchrun_api.conditions import Reason
from batchrun_api.spec.dataset import Dataset
from batchrun_runner.dataset.encoding import utf8_blocks
from batchrun_runner.dataset.errors import DatasetUnreadable
from batchrun_runner.dataset.lines import split_lines
from batchrun_runner.dataset.rows import InvalidRow, read_rows
from batchrun_runner.dataset.sources import file_source, http_source, source_of, text_source
from batchrun_runner.records import PromptRow


def read(data: bytes, block: int = 1 << 20) -> list[PromptRow | InvalidRow]:
    return list(read_rows(utf8_blocks((data[i : i + block] for i in range(0, len(data), block)), "data.jsonl")))


def valid(data: bytes) -> list[PromptRow]:
    rows = read(data)
    assert all(isinstance(row, PromptRow) for row in rows), rows
    return [row for row in rows if isinstance(row, PromptRow)]


def invalid(data: bytes) -> list[InvalidRow]:
    return [row for row in read(data) if isinstance(row, InvalidRow)]


TWO = b'{"prompt":"p1"}\n{"prompt":"p2"}\n'


@pytest.mark.parametrize(
    "data",
    [
        codecs.BOM_UTF8 + TWO,
        codecs.BOM_UTF16_LE + TWO.decode().encode("utf-16-le"),
        codecs.BOM_UTF16_BE + TWO.decode().encode("utf-16-be"),
    ],
)
@pytest.mark.parametrize("block", [1, 7, 1000])
def test_a01_a_byte_order_mark_or_utf_16_changes_no_row_and_no_key(data: bytes, block: int) -> None:
    assert read(data, block) == valid(TWO)


def test_a01_utf_16_without_a_mark_is_refused_by_name() -> None:
    for encoding in ("utf-16-le", "utf-16-be"):
        with pytest.raises(DatasetUnreadable, match=r"data.jsonl looks like UTF-16.*save it as UTF-8"):
            read(TWO.decode().encode(encoding))
    with pytest.raises(DatasetUnreadable, match="UTF-32"):
        read(TWO.decode().encode("utf-32"))


def test_a02_blank_lines_crlf_and_a_missing_last_line_end_change_nothing() -> None:
    rows = valid(b'{"prompt":"p1"}\r\n\r\n   \r\n{"prompt":"p2"}')
    assert [row.prompt for row in rows] == ["p1", "p2"]
    assert [row.key for row in rows] == [row.key for row in valid(TWO)]


def test_a02_errors_name_physical_lines() -> None:
    assert [row.line for row in invalid(b'\r\n{"prompt":"p1"}\r\n\r\nbad\r\n\r\n5')] == [4, 6]


def test_a02_only_a_line_feed_ends_a_line() -> None:
    text = '{"prompt":"a\u2028b\u0085c\u000bd"}\n'.replace("\u000b", "\\u000b")
    assert valid(text.encode())[0].prompt == "a\u2028b\u0085c\u000bd"


def test_a03_a_line_with_more_or_less_than_one_value_is_named_and_the_others_stay() -> None:
    rows = read(b'{"prompt":"p1"}{"prompt":"p2"}\n{"prompt":"p3"} ]\n{"prompt":"p4\n{"prompt":"p5"}\n')
    bad = [row for row in rows if isinstance(row, InvalidRow)]
    assert [row.line for row in bad] == [1, 2, 3]
    assert "more text follows" in bad[0].reason
    assert "more text follows" in bad[1].reason
    assert "cut off" in bad[2].reason
    assert [(row.index, row.prompt) for row in rows if isinstance(row, PromptRow)] == [(0, "p5")]
    assert all(row.fix for row in bad)


def test_a04_half_a_surrogate_pair_is_replaced_and_the_key_is_of_the_cleaned_text() -> None:
    half, clean = valid(rb'{"prompt":"say \ud83d hi","x":"\udc00"}' + b"\n" + '{"prompt":"say \ufffd hi"}'.encode())
    assert half.prompt == "say \ufffd hi"
    assert half.extra == '{"x":"\ufffd"}'
    assert half.key.replace("-0-0", "-1-0") == clean.key


def test_a04_a_whole_pair_stays_one_character() -> None:
    assert valid(rb'{"prompt":"\ud83c\udf78"}')[0].prompt == "🍸"


def test_a05_a_nul_is_kept() -> None:
    assert valid(rb'{"prompt":"a\u0000b"}')[0].prompt == "a\0b"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"prompt":"p","temperature":NaN}', "NaN is not JSON"),
        (b'{"prompt":"p","t":-Infinity}', "-Infinity is not JSON"),
        (b'{"prompt":"p","meta":{"x":1e999}}', "1e999 is too large"),
    ],
)
def test_a06_words_that_json_has_not_are_reported_with_their_line(line: bytes, reason: str) -> None:
    (bad,) = invalid(TWO + line)
    assert bad.line == 3
    assert reason in bad.reason


def test_a07_valid_json_of_the_wrong_shape_is_eight_reported_rows() -> None:
    lines = ['{"prompt":123}', '{"prompt":null}', '{"prompt":""}', '{"prompt":["a"]}', '{"Prompt":"x"}']
    bad = invalid("\n".join([*lines, '"prompt"', "5", '["prompt"]']).encode())
    assert [row.line for row in bad] == list(range(1, 9))
    assert [row.reason for row in bad] == [
        "`prompt` is a number, not a string",
        "`prompt` is null, not a string",
        "`prompt` is empty",
        "`prompt` is a list, not a string",
        "it has no key `prompt` (found `Prompt`)",
        "it is a JSON string, not an object",
        "it is a JSON number, not an object",
        "it is a JSON list, not an object",
    ]


def test_a07_names_that_are_no_strings_are_reported() -> None:
    bad = invalid(b'{"prompt":"p","image":1}\n{"prompt":"p","cwd":[]}\n{"prompt":"p","id":7}\n{"prompt":"p","id":true}')
    assert [row.reason for row in bad] == [
        "`image` is a number, not a string",
        "`cwd` is a list, not a string",
        "`id` is a number, not a string",
        "`id` is a boolean, not a string",
    ]


@pytest.mark.parametrize(
    ("line", "key"),
    [
        (b'{"prompt":"a","prompt":"b"}', "prompt"),
        (b'{"prompt":"a","prompt":"a"}', "prompt"),
        (b'{"id":"x","prompt":"a", "id" :"y"}', "id"),
        (b'{"prompt":"a","note":1,"note":2}', "note"),
        (b'{"prompt":"a","note":{"deep":1,"deep":2}}', "deep"),
    ],
)
def test_a_key_that_is_given_twice_makes_the_row_invalid_and_is_named(line: bytes, key: str) -> None:
    [row] = invalid(line)
    assert row.reason == f"it has the key '{key}' twice"


def test_a_keys_name_as_a_value_or_within_a_text_is_no_second_key() -> None:
    rows = valid(b'{"id":"prompt","prompt":"say \\"prompt\\": and \\"id\\"","image":"image"}')
    assert [(row.id, row.image, row.prompt) for row in rows] == [("prompt", "image", 'say "prompt": and "id"')]


def test_a08_a_row_over_the_limit_is_refused_alone_and_never_held() -> None:
    def blocks() -> Iterator[bytes]:
        yield b'{"prompt":"p1"}\n{"prompt":"'
        for _ in range(20 * 16):
            yield b"x" * 65536
        yield b'"}\n{"prompt":"p3"}\n'

    tracemalloc.start()
    rows = list(read_rows(blocks(), limit_bytes=1 << 20))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    first, long, third = rows
    assert isinstance(first, PromptRow)
    assert isinstance(third, PromptRow)
    assert isinstance(long, InvalidRow)
    assert (third.index, third.prompt) == (1, "p3")
    assert (long.line, "20971533 bytes" in long.reason) == (2, True)
    assert peak < 4 << 20


def test_image_wins_over_docker_image_and_empty_names_count_as_left_out() -> None:
    rows = valid(
        b'{"prompt":"p","docker_image":"d"}\n{"prompt":"p","docker_image":"d","image":"i"}\n'
        b'{"prompt":"p","image":null,"cwd":""}\n{"prompt":"p"}'
    )
    assert [row.image for row in rows] == ["d", "i", "", ""]
    assert rows[2].key.split("-")[0] == rows[3].key.split("-")[0]


def test_unknown_keys_come_back_as_one_json_string_with_every_digit() -> None:
    (row,) = valid(b'{"id":"t1","big":1180591620717411303424,"prompt":"p","meta":{"a":[1,2.5,null]}}')
    assert json.loads(row.extra) == {"big": 2**70, "meta": {"a": [1, 2.5, None]}}
    assert row.id == "t1"
    assert valid(TWO)[0].extra == "{}"


def test_bytes_that_are_not_utf_8_and_bottomless_nesting_are_reported() -> None:
    bad = invalid(
        b'{"prompt":"\xff"}\n{"prompt":"p","x":' + b"[" * 100_000 + b"\n" + b'{"prompt":"p","x":' + b"9" * 5000 + b"}"
    )
    assert "byte 12 is not UTF-8" in bad[0].reason
    assert len(bad) == 3


def test_gzip_is_found_by_content_with_several_members_and_any_block_size() -> None:
    data = gzip.compress(TWO[:20]) + gzip.compress(TWO[20:])
    for block in (1, 13, 1000):
        assert read(data, block) == valid(TWO)


def test_gzip_that_was_cut_or_damaged_is_refused() -> None:
    data = gzip.compress(TWO * 1000)
    with pytest.raises(DatasetUnreadable, match="ends early"):
        read(data[:-20])
    with pytest.raises(DatasetUnreadable, match="damaged gzip"):
        read(data[:20] + b"\0\0\0\0" + data[24:])


def test_a_gzip_bomb_is_streamed() -> None:
    data = gzip.compress(b'{"prompt":"p1"}\n' + b" " * (48 << 20) + b'\n{"prompt":"p2"}\n')
    tracemalloc.start()
    rows = read(data)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len([row for row in rows if isinstance(row, PromptRow)]) == 2
    assert peak < 24 << 20


@pytest.mark.parametrize(
    ("magic", "name"), [(b"PAR1", "Parquet"), (b"PK\x03\x04", "zip"), (b"\x28\xb5\x2f\xfd", "zstd")]
)
def test_other_formats_are_refused_by_name(magic: bytes, name: str) -> None:
    with pytest.raises(DatasetUnreadable, match=f"data.jsonl is .*{name}.*give JSON lines"):
        read(magic + b"rest of it")


def test_a_json_array_gets_the_fix_told() -> None:
    (bad,) = invalid(b'[{"prompt":"p1"}]')
    assert "without a list around them" in bad.fix


@given(st.lists(st.binary(max_size=6).filter(lambda text: b"\n" not in text), max_size=8), st.integers(1, 9))
def test_lines_do_not_depend_on_how_the_bytes_arrive(texts: list[bytes], block: int) -> None:
    data = b"\n".join(texts)
    lines = list(split_lines(data[i : i + block] for i in range(0, len(data), block)))
    expected = [(n, text.removesuffix(b"\r")) for n, text in enumerate(texts, 1) if text.removesuffix(b"\r").strip()]
    assert [(line.number, line.text) for line in lines] == expected


@given(st.text(min_size=1).filter(str.strip), st.booleans())
def test_any_text_survives_or_is_cleaned_and_is_always_utf_8(text: str, escape: bool) -> None:
    line = json.dumps({"prompt": text}, ensure_ascii=escape).encode("utf-8", "replace")
    (row,) = valid(line)
    row.prompt.encode()
    assert len(row.prompt) == len(text)


def test_sources_read_what_the_spec_names(tmp_path: Path) -> None:
    path = tmp_path / "data set.jsonl"
    path.write_bytes(TWO)
    inline = source_of(Dataset(inline=TWO.decode()))
    local = source_of(Dataset(uri=f"file://{str(path).replace(' ', '%20')}"))
    mounted = source_of(
        Dataset.model_validate({"configMapKeyRef": {"name": "prompts", "key": "data.jsonl"}}), config_map_file=path
    )
    for source in (inline, local, mounted, file_source(path), text_source(TWO.decode())):
        assert list(source.rows()) == valid(TWO)
        assert list(source.rows()) == valid(TWO), "a source can be read again"
    assert mounted.place == "key data.jsonl of ConfigMap prompts"


def test_a_data_set_that_is_not_there_is_named_with_the_fix(tmp_path: Path) -> None:
    with pytest.raises(DatasetUnreadable, match=r"nothing.jsonl does not exist") as caught:
        list(file_source(tmp_path / "nothing.jsonl").rows())
    assert caught.value.reason is Reason.DATASET_UNREADABLE
    with pytest.raises(DatasetUnreadable, match="cannot be read: Is a directory"):
        list(file_source(tmp_path).rows())
    with pytest.raises(DatasetUnreadable, match="names a bucket and no object"):
        source_of(Dataset(uri="s3://bucket"))


def test_a_file_of_a_claim_is_read_and_never_one_beside_its_volume(tmp_path: Path) -> None:
    volume, claim = tmp_path / "volume", {"claimName": "prompts", "path": "sets/a.jsonl"}
    (volume / "sets").mkdir(parents=True)
    dataset = Dataset.model_validate({"persistentVolumeClaim": claim})
    place = "sets/a.jsonl of PersistentVolumeClaim prompts"
    with pytest.raises(DatasetUnreadable, match=f"{place} does not exist; correct the path"):
        list(source_of(dataset, volume=volume).rows())
    (tmp_path / "secret.jsonl").write_bytes(TWO)
    (volume / "sets" / "a.jsonl").symlink_to("../../secret.jsonl")
    with pytest.raises(DatasetUnreadable, match=f"{place} is a link that leads out of the volume; put the file itself"):
        list(source_of(dataset, volume=volume).rows())
    (volume / "sets" / "a.jsonl").unlink()
    (volume / "sets" / "b.jsonl").write_bytes(TWO)
    (volume / "sets" / "a.jsonl").symlink_to("b.jsonl")
    assert list(source_of(dataset, volume=volume).rows()) == valid(TWO)


@pytest.mark.parametrize("path", ["../a", "a/../../b", "/etc/passwd", "a//b", "a/", "..", ".", "a/./b", ""])
def test_a_path_that_leads_out_of_its_claim_is_refused(path: str) -> None:
    with pytest.raises(ValidationError, match=r"without \. or \.\.|at least 1 character"):
        Dataset.model_validate({"persistentVolumeClaim": {"claimName": "prompts", "path": path}})


def test_secrets_in_an_address_are_in_no_message() -> None:
    source = http_source("https://user:secret@127.0.0.1:9/prompts.jsonl?X-Amz-Signature=secret")
    with pytest.raises(DatasetUnreadable) as caught:
        list(source.rows())
    assert "secret" not in str(caught.value)
    assert "127.0.0.1:9/prompts.jsonl" in str(caught.value)
