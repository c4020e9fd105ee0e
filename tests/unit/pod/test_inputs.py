"""What a pod finds mounted and in its environment."""

import json
from pathlib import Path

import pytest

from batchrun_api.exit_codes import ExitCode
from batchrun_api.names import ENV_API_KEY
from batchrun_runner.model.errors import StopRun
from batchrun_runner.pod.ending import ended_with
from batchrun_runner.pod.inputs import read_settings


def config_of(folder: Path) -> Path:
    run = {
        "apiVersion": "batchrun.dev/v1alpha1",
        "kind": "BatchRun",
        "metadata": {"name": "any"},
        "spec": {
            "dataset": {"inline": '{"prompt": "p"}\\n'},
            "distribution": "terminal_only",
            "output": {"s3": {"bucket": "results"}},
        },
    }
    file = folder / "config.json"
    file.write_text(json.dumps(run))
    return file


@pytest.mark.parametrize("key", ["sk-0123456789 ", "sk-0123456789\n", "   ", "sk-\u00e9", "sk-0123\t456789"])
def test_a_key_that_cannot_be_sent_is_told_as_wrong_credentials_and_not_shown(tmp_path: Path, key: str) -> None:
    with pytest.raises(StopRun) as stopped:
        read_settings(config_of(tmp_path), {ENV_API_KEY: key}, prefill=tmp_path / "none")
    code, reason, message = ended_with(stopped.value)
    assert (code, reason) == (ExitCode.BLOCKED, "InvalidCredentials")
    assert message.startswith("the key ")
    assert "sk-" not in message


def test_a_key_that_can_be_sent_is_taken(tmp_path: Path) -> None:
    settings = read_settings(config_of(tmp_path), {ENV_API_KEY: "sk-0123456789"}, prefill=tmp_path / "none")
    assert settings.api_key == "sk-0123456789"
