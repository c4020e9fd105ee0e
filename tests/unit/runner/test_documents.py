"""A user's mistake is named with its line and field, and nothing is guessed."""

import json
from pathlib import Path

import pytest
import yaml

from batchrun_api.checks import distribution_of
from batchrun_api.own_distribution import reference_of
from batchrun_api.spec.model import Model
from batchrun_runner.documents import InvalidFile, load_run

GOOD = """\
apiVersion: batchrun.dev/v1alpha1
kind: BatchRun
metadata: {name: my-run}
spec:
  dataset: {uri: "s3://data/prompts.jsonl"}
  output: {s3: {bucket: results}}
  distribution: terminal_only
"""


def write(tmp_path: Path, text: str | bytes) -> Path:
    file = tmp_path / "run.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def problems(tmp_path: Path, text: str | bytes, *, for_cluster: bool = True) -> list[str]:
    with pytest.raises(InvalidFile) as caught:
        load_run(write(tmp_path, text), for_cluster=for_cluster)
    return [str(problem) for problem in caught.value.problems]


def test_a_good_file_is_one_run(tmp_path: Path) -> None:
    assert load_run(write(tmp_path, GOOD), for_cluster=True).run.run_name == "my-run"


def test_json_is_as_good_as_yaml(tmp_path: Path) -> None:
    run = load_run(write(tmp_path, GOOD), for_cluster=True).run

    assert load_run(write(tmp_path, run.model_dump_json(by_alias=True, exclude_none=True)), for_cluster=True).run == run


def test_config_maps_of_the_file_are_kept_for_references(tmp_path: Path) -> None:
    text = GOOD + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: prompts}\ndata: {a.jsonl: x}\n"

    assert load_run(write(tmp_path, text), for_cluster=True).config_maps == {"prompts": {"a.jsonl": "x"}}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            ("distribution: terminal_only", "distribution: all"),
            "7:3: spec.distribution: there is no distribution 'all'",
        ),
        (("distribution: terminal_only", "batchsize: 3"), "7:3: spec.batchsize: there is no such field"),
        (("distribution: terminal_only", "batchSize: ten"), "7:3: spec.batchSize: must be a whole number"),
        (("distribution: terminal_only", 'batchSize: "10"'), "7:3: spec.batchSize: must be a whole number"),
        (("distribution: terminal_only", "batchSize: 101"), "7:3: spec.batchSize: must be at most 100"),
        (
            ("distribution: terminal_only", "batchSize: 2\n  promptsPerPod: 3"),
            "4:1: spec: promptsPerPod cannot be larger",
        ),
        (("{uri: ", "{onInvalidRow: Skip, urj: "), "5:33: spec.dataset.urj: there is no such field"),
        (("s3://data", "ftp://data"), "5:13: spec.dataset.uri: must be an address"),
        (("metadata: {name: my-run}", "metadata: {name: My_Run}"), "3:12: metadata.name: must be a Kubernetes name"),
        (
            ("distribution: terminal_only", "model: {extraBody: {stream: true}}"),
            "7:23: spec.model.extraBody.stream: 'stream' is not for extraBody: use model.stream",
        ),
        (
            ("distribution: terminal_only", 'model: {extraBody: {"n": 2}}'),
            "spec.model.extraBody.n: 'n' is not for extraBody: one reply a call is read",
        ),
        (
            ("distribution: terminal_only", "model: {reasoning: {effort: low}, extraBody: {reasoning: {}}}"),
            "spec.model.extraBody.reasoning: 'reasoning' is not for extraBody: model.reasoning.effort says it already",
        ),
        (
            (
                "distribution: terminal_only",
                'model: {baseURL: "http://a/v1", openRouter: {providers: {sort: price}}}',
            ),
            "7:3: spec.model: openRouter.providers works with OpenRouter only",
        ),
        (("kind: BatchRun", "kind: BatchRun\nkind: BatchRun"), "3:1: kind: is given twice"),
        (("  output: {s3: {bucket: results}}\n", ""), "4:1: spec: output is needed on a cluster"),
        (("  dataset:", "  dataset: {}\n  x:"), "spec.dataset: name exactly one source"),
        (("{s3: {bucket: results}}", "{s3: {}}"), "6:12: spec.output.s3.bucket: is required"),
    ],
)
def test_a_mistake_is_named_with_line_and_field(tmp_path: Path, change: tuple[str, str], expected: str) -> None:
    assert expected in "\n".join(problems(tmp_path, GOOD.replace(*change)))


@pytest.mark.parametrize(
    ("line", "field", "expected"),
    [
        ("runName: 2026-01-31", "run_name", "2026-01-31"),
        ("batchSize: 10.0", "batch_size", 10),
        ("batchSize: null", "batch_size", 10),
        ("runName: null", "run_name", None),
        ("model: null", "model", Model()),
    ],
)
def test_yaml_values_are_those_that_the_cluster_gets(tmp_path: Path, line: str, field: str, expected: object) -> None:
    run = load_run(write(tmp_path, f"{GOOD}  {line}\n"), for_cluster=True).run

    assert getattr(run.spec, field) == expected


def test_json_may_escape_a_character_as_two_halves(tmp_path: Path) -> None:
    document = yaml.safe_load(GOOD)
    document["spec"]["agent"] = {"systemPrompt": "Hello 🙂"}

    run = load_run(write(tmp_path, json.dumps(document)), for_cluster=True).run

    assert run.spec.agent.system_prompt == "Hello 🙂"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("distribution: terminal_only", "batch_size: 3"), "7:3: spec.batch_size: there is no such field"),
        (("distribution: terminal_only", "batchsize: null"), "7:3: spec.batchsize: there is no such field"),
        (("{bucket: results}", "{bucket: null}"), "spec.output.s3.bucket: is required"),
        (("{name: my-run}", "{name: my-run, lables: {}}"), "3:26: metadata.lables: there is no such field"),
        (("{name: my-run}", "{name: my..run}"), "3:12: metadata.name: must be a Kubernetes name"),
    ],
)
def test_what_the_api_server_refuses_is_refused_by_validate(
    tmp_path: Path, change: tuple[str, str], expected: str
) -> None:
    assert expected in "\n".join(problems(tmp_path, GOOD.replace(*change)))


def test_metadata_may_have_all_that_kubernetes_knows(tmp_path: Path) -> None:
    text = GOOD.replace("{name: my-run}", "{name: my-run, finalizers: [a/b], creationTimestamp: null, labels: {a: b}}")

    assert load_run(write(tmp_path, text), for_cluster=True).run.metadata.labels == {"a": "b"}


def test_a_run_on_one_machine_needs_no_output(tmp_path: Path) -> None:
    text = GOOD.replace("  output: {s3: {bucket: results}}\n", "")

    assert load_run(write(tmp_path, text), for_cluster=False).run.spec.output is None


def test_a_network_without_private_addresses_is_for_clusters_and_refused_with_its_line_on_one_machine(
    tmp_path: Path,
) -> None:
    text = GOOD + "  sandbox: {network: {mode: InternetOnly}}\n"

    assert load_run(write(tmp_path, text), for_cluster=True)
    (problem,) = problems(tmp_path, text, for_cluster=False)
    assert f"{len(text.splitlines())}:23: spec.sandbox.network.mode: InternetOnly is done by" in problem
    for mode in ("Open", "Denied"):
        assert load_run(write(tmp_path, text.replace("InternetOnly", mode)), for_cluster=False)


def test_reasoning_none_with_the_reasoning_filter_would_discard_everything(tmp_path: Path) -> None:
    text = GOOD + "  model: {reasoning: {effort: none}}\n"

    assert "set it to false" in problems(tmp_path, text)[0]
    assert load_run(write(tmp_path, text + "  filters: {requireReasoning: false}\n"), for_cluster=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "exactly one document of kind BatchRun, found 0 (kinds: nothing)"),
        ("a: [", "is not YAML"),
        ("- 1", "a document must be an object"),
        ("[" * 5000, "nested too deeply"),
        ("kind: Secret", "found 0 (kinds: Secret)"),
        (GOOD + "---\n" + GOOD, "found 2"),
        (b"\xff\xfea", "is not UTF-8"),
        ("a: !!python/object:os.system x\n", "is not YAML"),
        ("? [a, b]\n: x\n", "a key must be a plain word"),
    ],
)
def test_a_file_that_is_no_run_is_refused_in_one_line(tmp_path: Path, text: str | bytes, expected: str) -> None:
    [problem] = problems(tmp_path, text)

    assert expected in problem


def test_a_file_that_is_not_there_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=r"none\.yaml:1: cannot be read: No such file"):
        load_run(tmp_path / "none.yaml", for_cluster=True)


# ---- distributions that lie in a ConfigMap ----

REFERRING = GOOD.replace("terminal_only", "{configMapKeyRef: {name: ours, key: careful}}")
NOT_THERE = "7:18: spec.distribution.configMapKeyRef: there is no ConfigMap ours with the key careful in this file"


def beside(data: str) -> str:
    """The BatchRun of line 1 to 7, the ConfigMap from line 9 on."""
    return f"{REFERRING}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: ours}}\ndata:\n{data}\n"


@pytest.mark.parametrize("for_cluster", [True, False])
@pytest.mark.parametrize(
    "data", ["  careful: '{file: 30, terminal: 100}'", '  careful: \'{"file": 30, "terminal": 100}\'']
)
def test_a_distribution_of_the_file_stands_in_the_spec(tmp_path: Path, data: str, for_cluster: bool) -> None:
    run = load_run(write(tmp_path, beside(data)), for_cluster=for_cluster).run

    assert run.spec.distribution == {"file": 30, "terminal": 100}
    assert list(distribution_of(run.spec) or ()) == ["terminal", "file"], "in the order of the table, as in a cluster"


def test_a_distribution_that_lies_in_the_cluster_is_left_to_the_operator(tmp_path: Path) -> None:
    run = load_run(write(tmp_path, REFERRING), for_cluster=True).run

    assert reference_of(run.spec) is not None
    [problem] = problems(tmp_path, REFERRING, for_cluster=False)
    assert problem == f"{NOT_THERE}; on one machine it must stand there as a document of its own"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            "  other: '{file: 1}'",
            f"{NOT_THERE}; add the key to it",
        ),
        ("  careful: {file: 1}", "13:3: data.careful: must be a text: put | behind the colon"),
        ("  careful: 'file 1'", "13:3: data.careful: is no mapping; write toolsets and their"),
        ("  careful: '{shell: 1}'", "13:3: data.careful: there is no toolset 'shell'; there are web, vision,"),
        ("  careful: '{file: 0}'", "13:3: data.careful: every toolset has probability 0"),
        ("  careful: '{file: 101}'", "13:3: data.careful: file: must be at most 100; write"),
        (
            "  careful: '{file: 1, web: 1}'",
            "7:3: spec.distribution: these toolsets do not work: web (needs tools.web); meet what is missing, set",
        ),
    ],
)
@pytest.mark.parametrize("for_cluster", [True, False])
def test_a_distribution_that_cannot_be_used_is_named_by_place_and_fix(
    tmp_path: Path, data: str, expected: str, for_cluster: bool
) -> None:
    [problem] = problems(tmp_path, beside(data), for_cluster=for_cluster)

    assert problem.startswith(expected)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("{configMapKeyRef: {name: ours}}", "7:18: spec.distribution.configMapKeyRef.key: is required"),
        ("{configMapKeyRef: {name: ours, key: a/b}}", "must be the key of a Secret or ConfigMap"),
        ("{configMapKeyRef: {name: ours, key: a}, file: 100}", "spec.distribution.file: there is no such field"),
    ],
)
def test_a_reference_that_is_none_is_named_by_its_field(tmp_path: Path, choice: str, expected: str) -> None:
    [problem] = problems(tmp_path, GOOD.replace("terminal_only", choice))

    assert expected in problem


@pytest.mark.parametrize("metadata", ["metadata: x", "metadata: {name: {a: b}}", "metadata: null"])
def test_odd_config_maps_beside_the_run_give_no_traceback(tmp_path: Path, metadata: str) -> None:
    file = write(tmp_path, f"{GOOD}---\nkind: ConfigMap\n{metadata}\n")
    assert load_run(file, for_cluster=True).config_maps == {}


def test_data_of_a_config_map_that_are_none_are_named_by_line(tmp_path: Path) -> None:
    text = f"{GOOD}---\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: x\n"

    assert problems(tmp_path, text) == ["11:1: data: must be a mapping (name: value)"]
