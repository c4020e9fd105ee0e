"""Tools that ask other models, in whole local runs."""

from __future__ import annotations

from tests.cluster.harness import model_tools
from tests.cluster.harness.images_api import ImagesAPI
from tests.cluster.harness.model import ModelServer
from tests.contract.local.support import Workplace, environment


def test_tools_ask_their_models_and_what_these_use_is_counted(place: Workplace) -> None:
    with ImagesAPI("127.0.0.1") as api, ModelServer("127.0.0.1", script=model_tools.SCRIPT) as second:
        place.prompts(model_tools.rows(api))
        place.spec(**model_tools.spec(api, second))
        done = place.run("--sandbox", "process")

        assert (done.returncode, done.stderr) == (0, "")
        model_tools.judge(api, second, place.rows(), place.objects())
    tokens = place.statistics()["tokens"]
    assert tokens["prompt_tokens"] == sum(row["usage"]["prompt_tokens"] for row in place.rows())


def test_the_runs_own_model_looks_at_pictures_where_no_other_is_named(place: Workplace, model: ModelServer) -> None:
    with ImagesAPI("127.0.0.1") as api:
        place.prompts(model_tools.rows(api)[:1])
        place.spec(
            distribution={"vision": 100},
            tools={"vision": {}},
            model={"name": "own", "baseURL": model.base_url, "sampling": {"temperature": 0.5}},
        )
        model.play([{"match": "colour", "turns": [{"content": "It is blue."}]}])
        done = place.run("--sandbox", "process", environ=environment(OPENAI_API_KEY="sk-of-the-run-itself-1"))

    assert done.returncode == 0
    looks = [body for body in model.bodies if isinstance(body["messages"][0]["content"], list)]
    assert [(body["model"], body["temperature"]) for body in looks] == [("own", 0.5)]
    assert {headers["authorization"] for headers in model.headers} == {"Bearer sk-of-the-run-itself-1"}
    (row,) = place.rows()
    assert row["tool_stats"]["vision_analyze"] == {"count": 2, "success": 1, "failure": 1}, "no range is opened here"


def test_a_key_of_a_tools_own_goes_to_its_model_and_is_kept_nowhere(place: Workplace) -> None:
    keys = {"OPENAI_API_KEY": "sk-of-all-servers-0001", "BATCHRUN_TOOL_KEY_VISION": "sk-of-the-eyes-alone-02"}
    with ImagesAPI("127.0.0.1") as api, ModelServer("127.0.0.1", script=model_tools.SCRIPT) as second:
        place.prompts(model_tools.rows(api))
        place.spec(**model_tools.spec(api, second))
        done = place.run("--sandbox", "process", environ=environment(**keys))
        assert done.returncode == 0
        keys_by_model = dict(model_tools.keys_by_model(second))
        assert keys_by_model.pop("sees/well") == f"Bearer {keys['BATCHRUN_TOOL_KEY_VISION']}"
        assert set(keys_by_model) == {"refers/well", "refers/too", "sums/up"}
        assert set(keys_by_model.values()) == set(api.keys) == {f"Bearer {keys['OPENAI_API_KEY']}"}
        assert all(key is None for _, key in api.fetched)
    kept = b"".join(place.objects().values()) + done.stdout.encode() + done.stderr.encode()
    assert not [key for key in keys.values() if key.encode() in kept]
