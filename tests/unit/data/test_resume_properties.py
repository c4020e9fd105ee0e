"""Resume over data sets that were reordered, shortened, extended or re-saved: each prompt is paid for exactly once."""

import json
import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.data.support import Run, answered, failed

from batchrun_runner.dataset.encoding import utf8_blocks
from batchrun_runner.dataset.rows import read_rows
from batchrun_runner.records import PromptRow
from batchrun_runner.storage.folder import FolderStore

PROMPTS = st.lists(st.sampled_from(["a", "b", "c", " a", "d\n"]), min_size=1, max_size=8)


def new_run(folder: str) -> Run:
    return Run(FolderStore(Path(folder, "first_run"), survives_power_cut=False), Path(folder, "work"))


@settings(deadline=None, max_examples=12)
@given(st.lists(PROMPTS, min_size=1, max_size=3), st.data())
def test_over_any_sequence_of_data_sets_each_occurrence_costs_once(
    versions: list[list[str]], data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = new_run(folder)
        paid: Counter[str] = Counter()
        for prompts in versions:
            expected = Counter(prompts)
            run.asked.clear()
            merged = run.run(prompts)
            new = {prompt: max(0, count - paid[prompt]) for prompt, count in expected.items()}
            assert Counter(run.asked) == Counter({prompt: count for prompt, count in new.items() if count})
            paid |= expected
            assert run.prompts()[: len(prompts)] == prompts
            assert [row["prompt_index"] for row in run.rows()][: len(prompts)] == list(range(len(prompts)))
            assert merged.result.completed == len(prompts)
            assert merged.result.orphaned == paid.total() - len(prompts)
            assert len(run.rows()) == paid.total()


@settings(deadline=None, max_examples=12)
@given(PROMPTS, st.lists(st.integers(0, 7)), st.lists(st.integers(0, 3), max_size=3), st.booleans())
def test_whatever_fails_and_wherever_it_stops_the_end_is_the_same(
    prompts: list[str], failing: list[int], finished: list[int], is_compacted: bool
) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        run = new_run(one)
        run.agent = lambda row: failed(row) if row.index in failing else answered(row)
        outcome = run.plan(prompts)
        for batch in outcome.plan.batches:
            if batch.number in finished:
                run.work(outcome, batch, finish=is_compacted)
        run.agent = answered
        run.run(prompts)
        straight = new_run(other)
        straight.run(prompts)
        assert run.prompts() == straight.prompts()
        assert [row["key"] for row in run.rows()] == [row["key"] for row in straight.rows()]
        mine, theirs = run.json("statistics.json"), straight.json("statistics.json")
        for statistics in (mine, theirs):
            for name in ("rows", "duration_seconds", "seconds"):
                del statistics[name]
        assert mine == theirs
        assert run.json("checkpoint.json")["completed_prompts"] == list(range(len(prompts)))


ROW = st.fixed_dictionaries(
    {"prompt": st.text(min_size=1).filter(str.strip)},
    optional={"id": st.text(), "cwd": st.text(), "image": st.text(max_size=20), "more": st.integers()},
)


@settings(deadline=None)
@given(st.lists(ROW, max_size=6), st.randoms(use_true_random=False))
def test_keys_do_not_depend_on_how_the_file_was_saved(rows: list[dict[str, str | int]], random: object) -> None:
    plain = "".join(json.dumps(row) + "\n" for row in rows).encode()
    resaved = "\r\n\r\n".join(
        json.dumps(
            {**dict(reversed(row.items())), "added": 1}, ensure_ascii=False, indent=None, separators=(" ,", " : ")
        )
        for row in rows
    )
    assert _keys(plain) == _keys(b"\xef\xbb\xbf" + resaved.encode("utf-8"))
    assert len(set(_keys(plain))) == len(rows)


def _keys(data: bytes) -> list[str]:
    rows = [row for row in read_rows(utf8_blocks([data], "data.jsonl")) if isinstance(row, PromptRow)]
    return [row.key for row in rows]


@settings(deadline=None)
@given(st.lists(ROW, min_size=1, max_size=6))
def test_different_acting_fields_are_different_prompts(rows: list[dict[str, str | int]]) -> None:
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    digests = [key.split("-")[0] for key in _keys(data)]
    acting = [tuple((name, row.get(name) or "") for name in ("prompt", "image", "cwd", "id")) for row in rows]
    assert len(set(digests)) == len(set(acting))


def test_the_digest_of_a_known_row_never_changes() -> None:
    (key,) = _keys('{"id":"t1","cwd":"/w","image":"i","prompt":"grüße 🍸"}'.encode())
    assert key == "6b8562e0fcdcccaf081512f6-0-0"
    (key,) = _keys(b'{"prompt":"p1"}')
    assert key == "ea9a2cd59782dd861d0b4970-0-0"
