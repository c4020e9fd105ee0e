"""What a file says is what kubectl reads in it: the golden values are kubectl's own."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from batchrun_runner.yaml_values import Loader, json_value, key_text

ROOT = Path(__file__).resolve().parents[3]
GOLDEN = json.loads((ROOT / "tests/golden/yaml/kubectl.json").read_text())
VALUES: dict[str, Any] = GOLDEN["values"]
REFUSED: list[str] = GOLDEN["refused"]
KUBECTL = shutil.which("kubectl", path=str(ROOT / ".cluster/bin")) or shutil.which("kubectl")


def read(text: str) -> Any:
    node = yaml.compose(f"v: {text}\n", Loader)
    assert isinstance(node, yaml.MappingNode)
    return json_value(node)["v"]


@pytest.mark.parametrize("text", VALUES)
def test_a_value_is_what_kubectl_makes_of_it(text: str) -> None:
    ours, kubectls = read(text), VALUES[text]

    if isinstance(kubectls, int | float) and abs(kubectls) > 2**63 - 1:
        kubectls = float(text)  # what it prints is rounded
    assert ours == kubectls
    assert isinstance(ours, bool) == isinstance(kubectls, bool)
    if isinstance(kubectls, int):
        assert isinstance(ours, int), "a whole number is an integer"


@pytest.mark.parametrize("text", REFUSED)
def test_what_kubectl_refuses_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(yaml.MarkedYAMLError) as caught:
        read(text)

    assert caught.value.problem_mark is not None
    assert caught.value.problem_mark.line == 0


@pytest.mark.parametrize("text", ["&a [*a]", "&a {b: *a}", "!!python/object:os.system x", "!foo [1]", "!foo 5"])
def test_what_has_no_end_or_no_known_tag_is_refused(text: str) -> None:
    with pytest.raises(yaml.MarkedYAMLError):
        read(text)


def test_an_alias_is_read_as_often_as_it_is_used() -> None:
    assert read("{a: &x {d: 1e1}, b: *x, c: [*x, *x]}") == {"a": {"d": 10}, "b": {"d": 10}, "c": [{"d": 10}] * 2}


def test_an_integer_of_any_length_is_read() -> None:
    assert read("9" * 5000) == "9" * 5000  # no float either
    assert read("1" + "0" * 70) == 1e70


@pytest.mark.parametrize(("text", "key"), [("5", "5"), ("yes", "true"), ("0x10", "16"), ("a", "a"), ("1.5", None)])
def test_a_key_is_a_text(text: str, key: str | None) -> None:
    node = yaml.compose(text, Loader)
    assert node is not None
    assert key_text(node) == key


@pytest.mark.skipif(KUBECTL is None, reason="no kubectl here (make cluster-up brings one)")
def test_the_golden_values_are_those_of_kubectl(tmp_path: Path) -> None:
    head = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec:\n  v: "
    file = tmp_path / "all.yaml"
    file.write_text("\n---\n".join(head + text for text in VALUES) + "\n")
    items = json.loads(kubectl(file).stdout.replace("}\n{", "},{").join("[]"))

    assert [item["spec"]["v"] for item in items] == list(VALUES.values())
    for text in REFUSED:
        file.write_text(head + text + "\n")
        assert kubectl(file).returncode != 0, text


def kubectl(file: Path) -> subprocess.CompletedProcess[str]:
    """Reads a file and prints it, without a server."""
    command = [str(KUBECTL), "label", "--local", "-f", str(file), "-o", "json", "a=b"]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=60, env={"HOME": str(file.parent)}
    )
