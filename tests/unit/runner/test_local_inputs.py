"""What `batchrun local` takes from a file and the environment."""

from pathlib import Path

import pytest

from batchrun_runner.documents import load_run
from batchrun_runner.local.inputs import BadInput, settings_of

RUN = """\
apiVersion: batchrun.dev/v1alpha1
kind: BatchRun
metadata: {name: my-run}
spec:
  dataset: {inline: '{"prompt": "a"}'}
  distribution: terminal_only
  model: {baseURL: "%s"}
"""
OPENROUTER = "https://openrouter.ai/api/v1"


def key(tmp_path: Path, base_url: str, **environ: str) -> str | None:
    file = tmp_path / "run.yaml"
    file.write_text(RUN % base_url)
    return settings_of(file, load_run(file, for_cluster=False), environ).api_key


def test_each_key_goes_to_its_own_servers_only(tmp_path: Path) -> None:
    keys = {"OPENROUTER_API_KEY": "router", "OPENAI_API_KEY": "openai"}

    assert key(tmp_path, OPENROUTER, **keys) == "router"
    assert key(tmp_path, "http://localhost:8000/v1", **keys) == "openai"
    assert key(tmp_path, "https://openrouter.ai.example.com/v1", **keys) == "openai"
    assert key(tmp_path, "http://localhost:8000/v1") is None


@pytest.mark.parametrize(
    ("base_url", "environ", "says"),
    [
        (OPENROUTER, {"OPENAI_API_KEY": "x"}, "set OPENROUTER_API_KEY"),
        (OPENROUTER, {"OPENROUTER_API_KEY": "sk-\u00e9"}, "OPENROUTER_API_KEY holds characters"),
        ("http://localhost/v1", {"OPENAI_API_KEY": "a\nb"}, "OPENAI_API_KEY holds characters"),
        ("http://localhost/v1", {"OPENAI_API_KEY": "sk-1 "}, "OPENAI_API_KEY begins or ends with a blank"),
        ("http://localhost/v1", {"OPENAI_API_KEY": "  "}, "OPENAI_API_KEY begins or ends with a blank"),
        ("http://[:::::]/v1", {}, "spec.model.baseURL is no web address"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_anything_runs(
    tmp_path: Path, base_url: str, environ: dict[str, str], says: str
) -> None:
    with pytest.raises(BadInput, match=says) as caught:
        key(tmp_path, base_url, **environ)
    assert "\u00e9" not in str(caught.value)
