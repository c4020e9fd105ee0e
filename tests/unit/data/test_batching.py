"""Which rows share a batch."""

import io
import itertools
import random
from collections import Counter, defaultdict
from typing import Any

import pytest
from tests.unit.data.support import Run, batch_rows

from batchrun_api.spec import BatchRunSpec
from batchrun_runner.ledger import batching

DEFAULT = BatchRunSpec.model_validate({"dataset": {"inline": "-"}}).sandbox.image


def planned(run: Run, images: list[str], **spec: Any) -> list[list[tuple[int, str]]]:
    """Row number and image of each row, batch by batch, after a plan of rows with these images ("": none)."""
    run.spec = spec
    rows = [
        {"prompt": f"prompt {number}", **({"image": image} if image else {})} for number, image in enumerate(images)
    ]
    plan = run.plan(rows).plan
    cut = []
    for batch in plan.batches:
        read = batch_rows(run.store, plan.plan_id, batch)
        assert [row.image for row in read] == ["" if index < 0 else plan.images[index] for index in batch.images]
        cut.append([(row.index, row.image) for row in read])
    return cut


def numbers(cut: list[list[tuple[int, str]]]) -> list[list[int]]:
    return [[number for number, _ in batch] for batch in cut]


def test_rows_of_one_image_share_a_batch_in_data_set_order(run: Run) -> None:
    cut = planned(run, ["a", "b", "a", "b", "a", "b"])
    assert numbers(cut) == [[0, 2, 4], [1, 3, 5]]


def test_without_images_batches_are_cut_as_rows_come(run: Run) -> None:
    assert numbers(planned(run, [""] * 7)) == [[0, 1, 2], [3, 4, 5], [6]]


def test_rows_of_different_images_alone_are_cut_as_they_come(run: Run) -> None:
    assert numbers(planned(run, list("abcdefg"))) == [[0, 1, 2], [3, 4, 5], [6]]


def test_what_is_left_of_an_image_stays_together_and_shares_a_batch_with_other_rests(run: Run) -> None:
    cut = planned(run, ["a", "b", "a", "b", "c", "a", "b", "a", "d"], batchSize=3)
    assert numbers(cut) == [[0, 2, 5], [1, 3, 6], [4, 7, 8]]
    cut = planned(run, ["a", "a", "b", "b", "c"], batchSize=3)
    assert numbers(cut) == [[0, 1, 4], [2, 3]]


def test_two_names_of_one_image_are_one_image(run: Run) -> None:
    cut = planned(run, ["x", "python:3", DEFAULT, "docker.io/library/python:3", "", "x"], batchSize=2)
    assert numbers(cut) == [[1, 3], [2, 4], [0, 5]]


def test_data_set_order_leaves_images_where_they_stand(run: Run) -> None:
    assert numbers(planned(run, ["a", "b", "a", "b"], batching="DataSetOrder")) == [[0, 1, 2], [3]]


@pytest.mark.parametrize("held_bytes", [0, 300, 10**9], ids=["all on disk", "some on disk", "in memory"])
@pytest.mark.parametrize("seed", range(8))
def test_every_row_comes_once_and_an_image_is_in_one_batch_more_than_it_fills(
    run: Run, monkeypatch: pytest.MonkeyPatch, seed: int, held_bytes: int
) -> None:
    monkeypatch.setattr(batching, "_HELD_BYTES", held_bytes)
    chance = random.Random(seed)
    size = chance.randint(1, 7)
    images = [f"image{chance.randint(0, chance.choice([0, 3, 30]))}" for _ in range(chance.randint(1, 120))]
    cut = planned(run, images, batchSize=size)
    assert sorted(itertools.chain(*cut)) == list(enumerate(images))
    assert max(map(len, cut)) <= size
    batches_of, rows_of = Counter[str](), defaultdict[str, list[int]](list)
    for batch in cut:
        batches_of.update({image for _, image in batch})
        for number, image in batch:
            rows_of[image].append(number)
    for image, rows in rows_of.items():
        assert batches_of[image] == -(-len(rows) // size)
        assert rows == sorted(rows)


def test_the_same_rows_give_the_same_batches_wherever_they_waited(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    images = [f"image{number % 11}" for number in range(50)]
    in_memory = planned(run, images, batchSize=4)
    monkeypatch.setattr(batching, "_HELD_BYTES", 500)
    assert planned(run, images, batchSize=4) == in_memory


def test_rests_are_packed_where_they_leave_the_least_room() -> None:
    rows = io.BytesIO()
    writer = batching.BatchWriter(rows, 5)
    grouped = batching.GroupByImage(writer, 10, "default", io.BytesIO())
    for image, count in (("a", 6), ("b", 7), ("c", 3), ("d", 4), ("e", 2)):
        for _ in range(count):
            grouped.add(b'"key":"%s"}\n' % image.encode(), image, batching.Indices(ord(image)))
    grouped.finish()
    assert ["".join(map(chr, batch.images)) for batch in writer.batches] == ["aaaaaadddd", "bbbbbbbccc", "ee"]
    assert [batch.number for batch in writer.batches] == [5, 6, 7]
    last = writer.batches[-1]
    assert rows.getvalue()[last.offset : last.offset + last.length] == b'{"batch":7,"key":"e"}\n' * 2


def test_a_resume_does_not_look_at_how_batches_were_cut(run: Run) -> None:
    rows = [{"prompt": f"prompt {number}", "image": "ab"[number % 2]} for number in range(8)]
    run.spec = {"batching": "DataSetOrder"}
    first = run.plan(rows)
    run.work(first, first.plan.batches[0])
    run.spec = {}
    second = run.plan(rows)
    assert second.plan.counts.done == 3
    left = [row.index for batch in second.plan.batches for row in batch_rows(run.store, second.plan.plan_id, batch)]
    assert left == [3, 5, 7, 4, 6]
    for batch in second.plan.batches:
        run.work(second, batch)
    run.merge(second)
    assert run.prompts() == [row["prompt"] for row in rows]
