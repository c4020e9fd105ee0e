"""Which key goes to which model of a tool, on one machine and in pods."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from batchrun_api.names import ENV_API_KEY, tool_key_variable
from batchrun_api.spec import BatchRun
from batchrun_api.spec.tools import TOOL_KEY_PURPOSES
from batchrun_runner import settings as run_settings
from batchrun_runner.documents import load_run
from batchrun_runner.local.inputs import BadInput, settings_of

OWN = "https://models.example.com/v1"
OTHER = "https://other.example.com/v1"
ROUTER = "https://openrouter.ai/api/v1"
SECRET = {"name": "s", "key": "k"}


def document(ref: dict[str, Any], own: str = OWN, name: str = "own") -> dict[str, Any]:
    spec = {
        "dataset": {"inline": '{"prompt": "a"}'},
        "distribution": {"vision": 100},
        "model": {"name": name, "baseURL": own},
        "tools": {"vision": {"model": {"name": "sees", **ref}}},
    }
    return {"apiVersion": "batchrun.dev/v1alpha1", "kind": "BatchRun", "metadata": {"name": "r"}, "spec": spec}


def local_key(folder: Path, run: dict[str, Any], **environ: str) -> str | None:
    file = folder / "run.yaml"
    file.write_text(yaml.safe_dump(run))
    settings = settings_of(file, load_run(file, for_cluster=False), environ)
    assert settings.spec.tools.vision is not None
    return settings.key_for("vision", settings.spec.tools.vision.model)


def pod_key(ref: dict[str, Any], **environ: str) -> str | None:
    settings = run_settings.from_batchrun(BatchRun.model_validate(document(ref)), environ=environ)
    assert settings.spec.tools.vision is not None
    return settings.key_for("vision", settings.spec.tools.vision.model)


@pytest.mark.parametrize(
    ("ref", "key"),
    [
        ({}, "own"),
        ({"baseURL": OWN}, "own"),
        ({"baseURL": f"{OWN}/"}, "own"),
        ({"baseURL": OTHER}, None),
        ({"baseURL": "https://models.example.com/v2"}, None),
        ({"baseURL": "http://models.example.com/v1"}, None),
        ({"baseURL": "https://models.example.com:444/v1"}, None),
        ({"apiKeySecretRef": SECRET}, None),
        ({"baseURL": OTHER, "apiKeySecretRef": SECRET}, None),
    ],
)
def test_in_a_pod_the_runs_own_key_goes_to_its_own_base_url_alone(ref: dict[str, Any], key: str | None) -> None:
    assert pod_key(ref, **{ENV_API_KEY: "own"}) == key


def test_in_a_pod_a_key_of_the_tools_own_goes_where_the_spec_says() -> None:
    environ = {ENV_API_KEY: "own", "BATCHRUN_TOOL_KEY_VISION": "eyes"}

    assert pod_key({"apiKeySecretRef": SECRET}, **environ) == "eyes"
    assert pod_key({"baseURL": OTHER, "apiKeySecretRef": SECRET}, **environ) == "eyes"


@pytest.mark.parametrize(
    ("ref", "own", "key"),
    [
        ({}, OWN, "openai"),
        ({"apiKeySecretRef": SECRET}, OWN, "openai"),
        ({"baseURL": ROUTER}, OWN, "router"),
        ({"baseURL": OTHER}, ROUTER, "openai"),
        ({}, ROUTER, "router"),
        ({"baseURL": "https://openrouter.ai.example.com/v1"}, ROUTER, "openai"),
    ],
)
def test_on_one_machine_keys_go_by_the_rule_that_holds_for_the_runs_own_model(
    tmp_path: Path, ref: dict[str, Any], own: str, key: str
) -> None:
    keys = {"OPENROUTER_API_KEY": "router", "OPENAI_API_KEY": "openai"}

    assert local_key(tmp_path, document(ref, own), **keys) == key


def test_on_one_machine_a_variable_of_the_tools_own_wins_also_where_it_is_empty(tmp_path: Path) -> None:
    run = document({"baseURL": OTHER})

    assert local_key(tmp_path, run, OPENAI_API_KEY="openai", BATCHRUN_TOOL_KEY_VISION="eyes") == "eyes"
    assert local_key(tmp_path, run, OPENAI_API_KEY="openai", BATCHRUN_TOOL_KEY_VISION="") is None


def test_the_embedded_demo_model_is_no_server_of_openrouter(tmp_path: Path) -> None:
    run = document({}, ROUTER, "demo/scripted")
    assert local_key(tmp_path, run, OPENROUTER_API_KEY="router") is None

    run = document({"baseURL": ROUTER}, ROUTER, "demo/scripted")
    assert local_key(tmp_path, run, OPENROUTER_API_KEY="router") == "router"


@pytest.mark.parametrize(
    ("ref", "environ", "words"),
    [
        ({"baseURL": ROUTER}, {}, "baseURL of the model sees is openrouter.ai, which needs a key: set OPENROUTER_API"),
        ({"baseURL": OTHER}, {"OPENAI_API_KEY": "sk \n"}, "OPENAI_API_KEY begins or ends with a blank"),
        ({"baseURL": OTHER}, {"BATCHRUN_TOOL_KEY_VISION": "sk\u00e9"}, "BATCHRUN_TOOL_KEY_VISION holds characters"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_anything_runs(
    tmp_path: Path, ref: dict[str, Any], environ: dict[str, str], words: str
) -> None:
    with pytest.raises(BadInput, match=words):
        local_key(tmp_path, document(ref, ROUTER, "demo/scripted"), **environ)


def test_every_purpose_has_a_variable_of_its_own_and_counts_as_secret() -> None:
    variables = {tool_key_variable(purpose): purpose for purpose in TOOL_KEY_PURPOSES}
    assert len(variables) == len(TOOL_KEY_PURPOSES)
    assert all(variable.replace("_", "").isalnum() for variable in variables)

    settings = run_settings.from_batchrun(BatchRun.model_validate(document({})), environ=variables)
    assert set(TOOL_KEY_PURPOSES) <= set(settings.secrets)


@pytest.mark.parametrize(
    ("base_url", "words"),
    [("https://me:secret@host/v1", "user name or password"), ("https://host/v1?version=1", "query or fragment")],
)
def test_base_urls_of_tools_follow_the_rules_of_the_runs_own(base_url: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        BatchRun.model_validate(document({"baseURL": base_url}))
