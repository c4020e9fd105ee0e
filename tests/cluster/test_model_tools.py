"""Tools that ask other models, in pods."""

from __future__ import annotations

from tests.cluster.harness import model_tools
from tests.cluster.harness.images_api import ImagesAPI
from tests.cluster.harness.model import ModelServer
from tests.cluster.harness.runs import Runs


def test_tools_ask_their_models_with_keys_of_their_own(runs: Runs, node_address: str) -> None:
    key = "sk-of-the-eyes-alone-02"
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "eyes"}, "stringData": {"api-key": key}}
    runs.kubectl.apply(secret)
    with ImagesAPI(node_address) as api, ModelServer(node_address, script=model_tools.SCRIPT) as second:
        spec = model_tools.spec(api, second)
        spec["tools"]["vision"]["model"]["apiKeySecretRef"] = {"name": "eyes", "key": "api-key"}
        run = runs.start("model-tools", model_tools.rows(api), **spec)
        run.wait_complete(200)
        keys = [key for key in runs.bucket.etags(run.prefix) if key.startswith("images/")]
        objects = {key: runs.bucket.read(f"{run.prefix}/{key}") for key in keys}

        model_tools.judge(api, second, run.rows(), objects)
        keys_by_model = dict(model_tools.keys_by_model(second))
        assert keys_by_model.pop("sees/well") == f"Bearer {key}"
        assert set(keys_by_model) == {"refers/well", "refers/too", "sums/up"}
        assert set(keys_by_model.values()) == set(api.keys) == {None}
    assert not any(key in str(headers) for headers in runs.model.headers)
