"""The text of a distribution that lies in a ConfigMap: bounded, flat, and refused in words that say what to write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchrun_api.checks import distribution_of, spec_problems
from batchrun_api.own_distribution import (
    TEXT_LIMIT_BYTES,
    DistributionInvalid,
    parse_distribution,
    reference_of,
    with_probabilities,
)
from batchrun_api.spec import BatchRunSpec
from batchrun_api.toolsets import DISTRIBUTIONS, TOOLSETS

REFERRING = BatchRunSpec.model_validate(
    {"dataset": {"inline": "{}"}, "distribution": {"configMapKeyRef": {"name": "ours", "key": "careful"}}}
)


@pytest.mark.parametrize(
    "text",
    [
        "{terminal: 100, web: 30}",
        '{"terminal": 100, "web": 30}',
        "terminal: 100\nweb: 30  # documentation\n",
        "---\nweb: 30\nterminal: 100\n...\n",
    ],
)
def test_yaml_and_json_are_read(text: str) -> None:
    assert parse_distribution(text) == {"terminal": 100, "web": 30}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is no mapping"),
        ("terminal", "is no mapping"),
        ("[terminal]", "is no mapping"),
        ("{}", "must not be empty"),
        ("{terminal: 100", "is not YAML: line 1: "),
        ("a: 1\n---\nb: 1", "holds a second document"),
        ("a: 1\n---\nfoo", "holds a second document"),
        ("terminal: 100\nweb: {a: 1}", "line 2 is no name and number"),
        ("? [a]\n: 1", "line 1 is no name and number"),
        ("web: 1\nweb: 2", "'web' is given twice"),
        ("web: '50'", "web: must be a whole number"),
        ("web: yes", "web: must be a whole number"),
        ("web:", "web: must be a whole number"),
        ("web: 50%", "web: must be a whole number"),
        ("web: 0.5", "web: must be a whole number"),
        ("web: 010", "web: must be a whole number"),
        ("web: 101", "web: must be at most 100"),
        ("web: -1", "web: must be at least 0"),
        ("Web: 1", "Web: "),
        ("a: &x 1\nb: *x\n<<: {c: 1}", "line 2 is no name and number"),
        ("\x01", "is not YAML"),
        ("[" * 9000, "is no mapping"),
        ("a: " + "[" * 9000, "line 1 is no name and number"),
        ("{a: 1, {b: 1}: 2}", "line 1 is no name and number"),
        ("x" * 3000 + ": " + "{" * 9000, "is no mapping"),
        ("# " + "x" * TEXT_LIMIT_BYTES, "is longer than 16384 bytes"),
        ("\n".join(f"t{number}: 1" for number in range(65)), "must have at most 64 entries"),
    ],
)
def test_what_is_none_is_refused_with_what_to_write(text: str, words: str) -> None:
    with pytest.raises(DistributionInvalid) as refused:
        parse_distribution(text)

    assert str(refused.value).startswith(words)
    assert "{terminal: 100, web: 30}" in str(refused.value) or "leave out one" in str(refused.value)


def test_merges_that_double_on_each_line_are_not_followed() -> None:
    lines = ["a0: &a0 {b: 1}", *(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 200))]

    with pytest.raises(DistributionInvalid, match="line 1 is no name and number"):
        parse_distribution("\n".join(lines))


@given(st.text())
def test_any_text_is_a_distribution_or_is_refused(text: str) -> None:
    try:
        found = parse_distribution(text)
    except DistributionInvalid as error:
        said = str(error)
    else:
        assert all(0 <= percent <= 100 for percent in found.values())
        said = ""
    assert len(said) < 500


def test_a_reference_is_judged_when_its_probabilities_are_in() -> None:
    assert reference_of(REFERRING) is not None
    assert (distribution_of(REFERRING), spec_problems(REFERRING, for_cluster=False)) == (None, [])

    resolved = with_probabilities(REFERRING, {"shell": 100})
    assert reference_of(resolved) is None
    assert [problem.path for problem in spec_problems(resolved, for_cluster=False)] == [("distribution", "shell")]


def test_a_reference_comes_back_from_json_as_it_went() -> None:
    assert BatchRunSpec.model_validate(REFERRING.to_wire()) == REFERRING
    assert REFERRING.to_wire()["distribution"] == {"configMapKeyRef": {"name": "ours", "key": "careful"}}


def test_own_distributions_have_the_tables_order_for_an_api_server_keeps_none() -> None:
    own = with_probabilities(REFERRING, {"zoo": 5, "browser": 1, "art": 5, "file": 2, "web": 3})

    assert list(distribution_of(own) or ()) == ["web", "file", "browser", "art", "zoo"]
    for distribution in DISTRIBUTIONS.values():
        assert list(distribution) == [name for name in TOOLSETS if name in distribution], "the table itself"
