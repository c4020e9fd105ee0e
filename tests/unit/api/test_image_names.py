"""Where images are asked for: rules of `sandbox.imageRewrite`."""

from typing import Any

import pytest
from pydantic import ValidationError

from batchrun_api.spec.sandbox import Sandbox
from batchrun_api.wording import plain_words

DIGEST = "@sha256:" + "a" * 64


def rewritten(image: str, *rules: tuple[str, str]) -> str:
    wire: dict[str, Any] = {"imageRewrite": [{"from": old, "to": new} for old, new in rules]}
    return Sandbox.model_validate(wire).rewritten(image)


@pytest.mark.parametrize(
    ("image", "name"),
    [
        ("python:3.11-slim", "mirror.local:5000/hub/library/python:3.11-slim"),
        ("python", "mirror.local:5000/hub/library/python"),
        ("org/tool:1" + DIGEST, "mirror.local:5000/hub/org/tool:1" + DIGEST),
        ("docker.io/library/rust" + DIGEST, "mirror.local:5000/hub/library/rust" + DIGEST),
        ("docker.io.example.com/x:1", "docker.io.example.com/x:1"),
        ("ghcr.io/org/x", "ghcr.io/org/x"),
        ("localhost/x:1", "localhost/x:1"),
    ],
)
def test_a_registry_is_replaced_in_the_whole_name_and_tag_and_digest_stay(image: str, name: str) -> None:
    assert rewritten(image, ("docker.io", "mirror.local:5000/hub")) == name


@pytest.mark.parametrize(
    ("prefix", "image", "name"),
    [
        ("docker.io/library", "python:3", "m.local/python:3"),
        ("docker.io/library", "docker.io/libraryx/python:3", "docker.io/libraryx/python:3"),
        ("docker.io/library/python", "python:3", "m.local:3"),
        ("docker.io/library/python", "python-ml:3", "python-ml:3"),
        ("docker.io/library/python/more", "python:3", "python:3"),
        ("registry.local", "registry.local:5000/x:1", "registry.local:5000/x:1"),
        ("registry.local:5000", "registry.local:5000/x:1", "m.local/x:1"),
        ("localhost", "localhost/x", "m.local/x"),
    ],
)
def test_only_whole_components_match(prefix: str, image: str, name: str) -> None:
    assert rewritten(image, (prefix, "m.local")) == name


def test_the_first_rule_that_matches_counts_and_only_that() -> None:
    rules = [("docker.io/library", "a.local"), ("docker.io", "b.local"), ("a.local", "c.local")]
    assert rewritten("python", *rules) == "a.local/python"
    assert rewritten("org/x", *rules) == "b.local/org/x"


def test_without_a_rule_a_name_stays_as_it_was_written() -> None:
    assert rewritten("python:3") == "python:3"


@pytest.mark.parametrize("field", ["from", "to"])
@pytest.mark.parametrize("prefix", ["python", "library/python", "docker.io/", "docker.io/library/python:3", "a b.c/d"])
def test_a_prefix_without_a_registry_or_with_a_tag_is_refused_with_the_fix(field: str, prefix: str) -> None:
    rule = {"from": "docker.io", "to": "mirror.local"} | {field: prefix}
    with pytest.raises(ValidationError) as caught:
        Sandbox.model_validate({"imageRewrite": [rule]})
    (error,) = caught.value.errors()
    assert error["loc"] == ("imageRewrite", 0, field)
    assert plain_words(error).startswith("must begin with a registry and hold no tag: docker.io/library")
