"""A row's own user and resources: what is taken, what is refused, what is part of the key, and what the plan says."""

from typing import Any

import pytest
from tests.unit.data.support import Run, batch_rows, jsonl

from batchrun_api.own_container import AS_THE_RUN_SAYS, OwnAmounts, OwnContainer
from batchrun_api.spec.sandbox import ResourceList, Resources, Sandbox
from batchrun_runner.dataset.own_settings import RowBounds
from batchrun_runner.dataset.rows import InvalidRow, read_rows
from batchrun_runner.records import PromptRow

BOUNDS = RowBounds(resources=ResourceList(cpu="2", memory="1Gi"))


def read(**keys: Any) -> PromptRow | InvalidRow:
    (found,) = read_rows([jsonl([{"prompt": "p", **keys}]).encode()], bounds=BOUNDS)
    return found


def key_of(**keys: Any) -> str:
    found = read(**keys)
    assert isinstance(found, PromptRow), found
    return found.key


@pytest.mark.parametrize(
    ("user", "taken", "ids"),
    [(1000, "1000", (1000, None)), ("1000:007", "1000:7", (1000, 7)), (0, "0", (0, None))],
)
def test_a_user_is_taken_in_numbers_and_in_one_spelling(user: Any, taken: str, ids: tuple[int | None, ...]) -> None:
    found = read(user=user)
    assert isinstance(found, PromptRow)
    assert found.container.user == taken
    assert found.container.user_ids == ids


def test_resources_are_taken_kind_by_kind() -> None:
    found = read(resources={"limits": {"cpu": 1, "ephemeral-storage": "2Gi"}, "requests": {"memory": "64Mi"}})
    assert isinstance(found, PromptRow)
    assert found.container == OwnContainer(
        limits=OwnAmounts(cpu=1, ephemeral_storage="2Gi"), requests=OwnAmounts(memory="64Mi")
    )


@pytest.mark.parametrize("keys", [{"user": None, "resources": None}, {"resources": {}}, {"resources": {"limits": {}}}])
def test_what_is_null_or_empty_is_as_the_run_says(keys: dict[str, Any]) -> None:
    found = read(**keys)
    assert isinstance(found, PromptRow)
    assert found.container is AS_THE_RUN_SAYS
    assert found.key == key_of()


def test_a_user_makes_another_prompt_and_resources_do_not() -> None:
    assert key_of(user=1000) != key_of()
    assert key_of(user=1000) == key_of(user="01000")
    assert key_of(resources={"limits": {"cpu": "1"}}) == key_of()


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"user": "root"}, '`user` \'root\' is no number; write "uid" or "uid:gid" in numbers'),
        ({"user": ""}, "`user` '' is no number"),
        ({"user": -1}, "`user` '-1' is no number"),
        ({"user": "1000:"}, "`user` '1000:' is no number"),
        ({"user": "1:2:3"}, "`user` '1:2:3' is no number"),
        ({"user": "1000\n--privileged"}, "`user` '1000 --privileged' is no number"),
        ({"user": "\u0661"}, "`user` '\u0661' is no number"),
        ({"user": 2**31}, "`user` '2147483648' is above 2147483647; give a smaller number"),
        ({"user": True}, "`user` is a boolean, not a user; write 1000"),
        ({"user": 1.5}, "`user` is a number, not a user"),
        ({"resources": "1Gi"}, "`resources` is a string, not an object; write {"),
        ({"resources": {"memory": "1Gi"}}, "`resources` has the key 'memory', which it does not know; use limits"),
        ({"resources": {"limits": []}}, "`resources.limits` is a list, not an object"),
        (
            {"resources": {"limits": {"gpu": 1}}},
            "`resources.limits` has the key 'gpu', which it does not know; use cpu",
        ),
        ({"resources": {"limits": {"memory": "lots"}}}, "`resources.limits.memory` is 'lots', which is no quantity"),
        ({"resources": {"limits": {"cpu": True}}}, "`resources.limits.cpu` is 'True', which is no quantity"),
        ({"resources": {"limits": {"cpu": 0.5}}}, "`resources.limits.cpu` is '0.5', which is no quantity"),
        ({"resources": {"limits": {"memory": "1Gi\n"}}}, "`resources.limits.memory` is '1Gi"),
        (
            {"resources": {"limits": {"memory": "1025Mi"}}},
            "`resources.limits.memory` is 1025Mi, more than 1Gi of sandbox.maxResources, or of",
        ),
        ({"resources": {"requests": {"cpu": 3}}}, "`resources.requests.cpu` is 3, more than 2 of sandbox.maxResources"),
        (
            {"resources": {"limits": {"ephemeral-storage": "1E"}}},
            "`resources.limits.ephemeral-storage` is 1E, more than",
        ),
        ({"resources": {"limits": {"memory": 0}}}, "`resources.limits.memory` is 0, less than 16Mi, which a sandbox"),
        ({"resources": {"limits": {"cpu": "1m"}}}, "`resources.limits.cpu` is 1m, less than 10m"),
        (
            {"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1100m"}}},
            "`resources.requests.cpu` is 1100m, more than its limit of 1; lower it",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_line_and_the_fix(keys: dict[str, Any], words: str) -> None:
    found = read(**keys)
    assert isinstance(found, InvalidRow)
    assert str(found).startswith(f"line 1: {words}")


def test_a_row_may_ask_for_more_than_the_limits_where_the_spec_allows_it() -> None:
    narrow = Sandbox(resources=Resources(limits=ResourceList(cpu="1", memory="1Gi")))
    assert narrow.largest == ResourceList(cpu="1", memory="1Gi")
    wide = narrow.model_copy(update={"max_resources": ResourceList(memory="8Gi")})
    assert wide.largest == ResourceList(cpu="1", memory="8Gi")


def test_amounts_of_a_row_stand_in_place_of_the_runs_and_a_request_gives_way_to_a_lower_limit() -> None:
    of_run = Resources(requests=ResourceList(cpu="100m", memory="128Mi"), limits=ResourceList(cpu="1", memory="1Gi"))
    own = OwnContainer(limits=OwnAmounts(memory="64Mi"), requests=OwnAmounts(cpu="50m"))
    assert own.over(of_run) == Resources(
        requests=ResourceList(cpu="50m", memory="64Mi"), limits=ResourceList(cpu="1", memory="64Mi")
    )
    assert AS_THE_RUN_SAYS.over(of_run) == of_run


def test_the_plan_names_each_combination_once_and_batches_without_any_say_nothing(run: Run) -> None:
    big = {"resources": {"limits": {"memory": "512Mi"}}}
    run.spec = {"batchSize": 2}
    outcome = run.plan(
        [{"prompt": "a", **big}, {"prompt": "b"}, {"prompt": "c", "user": 7}, {"prompt": "d", **big}, {"prompt": "e"}]
    )
    made = outcome.plan
    assert made.containers == [OwnContainer(limits=OwnAmounts(memory="512Mi")), OwnContainer(user="7")]
    assert [batch.containers for batch in made.batches] == [[0, -1], [1, 0], []]
    rows = [row for batch in made.batches for row in batch_rows(run.store, made.plan_id, batch)]
    assert [row.container for row in rows] == [
        made.containers[0], AS_THE_RUN_SAYS, made.containers[1], made.containers[0], AS_THE_RUN_SAYS
    ]  # fmt: skip
