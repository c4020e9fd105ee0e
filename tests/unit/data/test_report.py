"""The page's pieces: what the index says of each row, and what cannot break out of the page."""

import re
import zlib
from base64 import b64decode
from dataclasses import replace
from typing import Any

import orjson
from tests.unit.data.support import Run, answered, failed

from batchrun_runner.merge.report.row_index import PROMPT_BYTES, prompt_start

HOSTILE = '</script><script>alert(1)</script><img src=x onerror="alert(2)"> \\ " \u2028 é'


def pieces(page: str, kind: str) -> list[bytes]:
    found = re.findall(rf'<script type="text/plain" data-piece="{kind}">([^<]*)</script>', page)
    return [zlib.decompress(b64decode(piece)) for piece in found]


def page_of(run: Run) -> str:
    return run.contents()["report.html"].decode()


def test_the_index_finds_each_row_and_tells_its_figures(run: Run) -> None:
    run.agent = lambda row: failed(row) if row.index == 1 else answered(row)
    run.run(["first", "second", HOSTILE])
    page, result = page_of(run), run.contents()["trajectories.jsonl"]
    index: list[list[Any]] = [row for piece in pieces(page, "index") for row in orjson.loads(piece)]
    start = 0
    for line, row in zip(index, run.rows(), strict=True):
        assert orjson.loads(result[start : start + line[3]]) == row
        start += line[3]
        assert line[:3] == [row["prompt_index"], row["outcome"], row["reason"]]
        assert line[4] == row["api_calls"]
        assert line[-1] == row["conversations"][0]["value"]
    assert start == len(result)
    assert pieces(page, "rows") == [result]


def test_rows_that_moved_are_found_where_they_are_now(run: Run) -> None:
    prompts = [f"prompt {number}" for number in range(11)]
    run.run(prompts)
    run.run(["new", *reversed(prompts[2:])])
    lines = [line for piece in pieces(page_of(run), "index") for line in orjson.loads(piece)]
    assert [line[-1] for line in lines] == run.prompts()
    assert [line[3] for line in lines] == [len(line) for line in run.contents()["trajectories.jsonl"].splitlines(True)]


def test_the_figures_in_the_page_are_those_of_the_statistics_and_close_no_element(run: Run) -> None:
    run.agent = lambda row: replace(failed(row), message=HOSTILE)
    run.run([HOSTILE])
    page = page_of(run)
    found = re.search(r'id="statistics">(.*?)</script>', page)
    assert found is not None
    assert orjson.loads(found[1]) == run.json("statistics.json")
    assert "alert(" not in page


def test_the_beginning_of_a_prompt_is_cut_between_letters() -> None:
    for text in ("é" * 500, 'a"' * 400, "\\" * 400, "\x01" * 300, "a" * 237 + "\x01\x01", "\U0001f600" * 200):
        row = orjson.dumps({"prompt_index": 0, "conversations": [{"from": "human", "value": text}]})
        start = prompt_start(memoryview(row))
        assert text.startswith(orjson.loads(b'"' + start + b'"'))
        assert PROMPT_BYTES - 6 <= len(start) <= PROMPT_BYTES


def test_a_prompt_behind_a_system_prompt_is_found() -> None:
    turns = [{"from": "system", "value": '"from":"human","value":"no' * 200}, {"from": "human", "value": "yes"}]
    row = orjson.dumps({"prompt_index": 0, "conversations": turns})
    assert prompt_start(memoryview(row)) == b"yes"
