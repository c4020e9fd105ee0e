"""`batchrun validate` and the API server say the same of a document; what only one of them can know is said here."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from batchrun_runner.main import app
from tests.cluster.harness.kubectl import Kubectl, wait_for

Document = dict[str, Any]

BASE: Document = {
    "apiVersion": "batchrun.dev/v1alpha1",
    "kind": "BatchRun",
    "metadata": {"name": "any"},
    "spec": {
        "dataset": {"inline": '{"prompt": "p"}\n'},
        "distribution": "terminal_only",
        "output": {"s3": {"bucket": "results"}},
    },
}


def at(path: str, value: Any) -> Document:
    """The base document with `value` at a dotted path below `spec`."""
    return laid_over(f"spec.{path}", value)


def laid_over(path: str, value: Any) -> Document:
    """The base document with `value` at a dotted path."""
    document = copy.deepcopy(BASE)
    *parents, last = path.split(".")
    node = document
    for name in parents:
        node = node.setdefault(name, {})
    node[last] = value
    return document


def without(path: str) -> Document:
    """The base document without what stands at a dotted path."""
    document = copy.deepcopy(BASE)
    *parents, last = path.split(".")
    node = document
    for name in parents:
        node = node[name]
    del node[last]
    return document


def written(field: str) -> str:
    """The base document as people write it, with one more line in its `spec`: YAML has its own ideas of words."""
    return f"{yaml.safe_dump(BASE, sort_keys=False)}  {field}\n"


def spec_of(**spec: Any) -> Document:
    """The base document with these fields instead of its own."""
    return BASE | {"spec": BASE["spec"] | spec}


SECRET_KEY = {"name": "openrouter", "key": "api-key"}
MESSAGE = {"role": "user", "content": "hello"}
CONFIG_MAP = {"configMapKeyRef": {"name": "prompts", "key": "a.jsonl"}}

GOOD: dict[str, Document | str] = {
    "least": BASE,
    "batch-size-1": at("batchSize", 1),
    "batch-size-100": at("batchSize", 100),
    "batch-size-null": at("batchSize", None),
    "batch-size-whole-float": at("batchSize", 10.0),
    "workers-1000": at("numWorkers", 1000),
    "prompts-per-pod-equal": spec_of(batchSize=3, promptsPerPod=3),
    "prompts-per-pod-default-batch": at("promptsPerPod", 10),
    "run-name-longest": at("runName", "r" * 100),
    "run-name-like-a-date": written("runName: 2026-01-31"),
    "run-name-like-a-time": written("maxSamples: 1_000"),
    "suspend-yes": written("suspend: yes"),
    "suspend-y": written("suspend: y"),
    "batch-size-power": written("batchSize: 1e1"),
    "batch-size-octal-of-yaml-1.2": written("batchSize: 0o12"),
    "batch-size-octal": written("batchSize: 010"),
    "batch-size-hexadecimal": written("batchSize: 0x10"),
    "uri-s3": at("dataset", {"uri": "s3://bucket/key.jsonl"}),
    "uri-https": at("dataset", {"uri": "https://example.org/a.jsonl?x=1"}),
    "dataset-config-map": at("dataset", CONFIG_MAP),
    "dataset-claim": at("dataset", {"persistentVolumeClaim": {"claimName": "prompts", "path": "a/..b/.c.jsonl"}}),
    "dataset-skip": at("dataset.onInvalidRow", "Skip"),
    "dataset-inline-longest": at("dataset.inline", "x" * 131072),
    "dataset-other-source-null": at("dataset.uri", None),
    "model-all": at(
        "model",
        {
            "name": "m",
            "baseURL": "http://localhost:1/v1",
            "server": "OpenRouter",
            "stream": True,
            "callsInText": "Parse",
            "outageTimeoutSeconds": 604800,
            "apiKeySecretRef": SECRET_KEY,
            "maxTokens": 1,
            "timeoutSeconds": 86400,
            "sampling": {"temperature": 2, "topP": 0.1, "seed": 0, "stop": ["a", "b", "c", "d"]},
            "reasoning": {"effort": "xhigh"},
            "openRouter": {"providers": {"allowed": ["a"], "ignored": ["b"], "order": ["c"], "sort": "price"}},
            "extraBody": {"nested": {"anything": [1, "a", None, True]}},
        },
    ),
    "providers-with-openrouter": at("model", {"openRouter": {"providers": {"sort": "price"}}}),
    "providers-with-a-subdomain": at(
        "model", {"baseURL": "https://eu.openrouter.ai/api/v1", "openRouter": {"providers": {"sort": "price"}}}
    ),
    "url-with-an-at-in-its-path": at("model.baseURL", "http://host/@team/v1"),
    "providers-empty-elsewhere": at("model", {"baseURL": "http://localhost:1/v1", "openRouter": {"providers": {}}}),
    "temperature-0": at("model.sampling.temperature", 0),
    "top-p-1": at("model.sampling.topP", 1),
    "seed-highest": at("model.sampling.seed", 2**53),
    "effort-none-without-filter": spec_of(model={"reasoning": {"effort": "none"}}, filters={"requireReasoning": False}),
    "agent-all": at(
        "agent",
        {
            "maxTurns": 1000,
            "timeoutSeconds": 1,
            "maxTotalTokens": 10**12,
            "systemPrompt": "You are Ünïcode 🙂.",
            "ephemeralSystemPromptFrom": {"secretKeyRef": SECRET_KEY},
            "prefillMessages": [MESSAGE],
        },
    ),
    "distribution-from-config-map": at("distribution", CONFIG_MAP),
    "prefill-from-config-map": at("agent.prefillMessagesFrom", CONFIG_MAP),
    "text-longest-in-characters": at("agent.systemPrompt", "ü" * 32768),
    "network-internet-only": at("sandbox.network.mode", "InternetOnly"),
    "network-denied": at("sandbox.network.mode", "Denied"),
    "network-null": at("sandbox.network.mode", None),
    "quantities-as-text": at("sandbox.resources", {"limits": {"cpu": "250m", "memory": "1.5Gi"}}),
    "quantities-as-numbers": at("sandbox.resources", {"limits": {"cpu": 2, "memory": 536870912}}),
    "quantity-0": at("sandbox.resources.requests.cpu", 0),
    "quantity-ephemeral-storage": at("sandbox.resources.limits.ephemeral-storage", "2Gi"),
    "sandbox-all": at(
        "sandbox",
        {
            "image": "registry.example.org/a/b@sha256:0",
            "imagePullPolicy": "Never",
            "imagePullTimeoutSeconds": 1,
            "commandTimeoutSeconds": 86400,
        },
    ),
    "output-all": at(
        "output.s3",
        {
            "bucket": "a.b-c",
            "prefix": "a/b_c/d=1",
            "endpointURL": "http://minio:9000",
            "region": "eu-central-1",
            "forcePathStyle": False,
            "credentialsSecretRef": {"name": "s3"},
        },
    ),
    "prefix-empty": at("output.s3.prefix", ""),
    "pod-template-all": at(
        "podTemplate",
        {
            "labels": {"team": "a", "empty": ""},
            "annotations": {"note": "anything at all"},
            "nodeSelector": {"disk": "ssd"},
            "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}],
            "affinity": {"nodeAffinity": {}},
            "priorityClassName": "high",
            "runtimeClassName": "gvisor",
            "imagePullSecrets": [{"name": "registry"}],
            "serviceAccountName": "runs",
        },
    ),
    "policies": spec_of(
        resumePolicy="Force",
        failurePolicy={"maxFailedPercent": 0},
        merge={"orphans": "Drop"},
        logging={"level": "debug", "prefixChars": 0},
        filters={"unknownTools": "Keep"},
        tools={"onUnavailable": "Drop"},
        maxSamples=10**9,
        ttlSecondsAfterFinished=0,
        activeDeadlineSeconds=2**31 - 1,
        suspend=True,
    ),
    "objects-null": spec_of(model=None, agent=None, sandbox=None, filters=None),
    "metadata-all": laid_over(
        "metadata",
        {
            "name": "any",
            "namespace": "default",
            "labels": {"a/b": "c"},
            "annotations": {"batchrun.dev/retry": "1"},
            "creationTimestamp": None,
            "finalizers": ["example.org/keep"],
        },
    ),
    "samples": spec_of(samplesPerPrompt=1000, maxSamples=10**6, model={"sampling": {"seed": 2**53 - 999}}),
    "optional-null": spec_of(
        maxSamples=None, samplesPerPrompt=None, runName=None, podTemplate={"labels": None, "tolerations": None}
    ),
    "name-with-dots": laid_over("metadata.name", "name.with-dots.2"),
    "status-of-another-life": laid_over("status", {"phase": "Complete"}),
}

BAD: dict[str, Document | str] = {
    "distribution-unknown": at("distribution", "everything"),
    "distribution-unknown-toolset": at("distribution", {"foo": 100}),
    "distribution-over": at("distribution", {"terminal": 101}),
    "distribution-below": at("distribution", {"terminal": -1, "file": 100}),
    "distribution-half": at("distribution", {"terminal": 50.5}),
    "distribution-never": at("distribution", {"terminal": 0, "web": 0}),
    "distribution-empty": at("distribution", {}),
    "distribution-from-nothing": at("distribution", {"configMapKeyRef": {}}),
    "distribution-from-text": at("distribution", {"configMapKeyRef": "evens"}),
    "distribution-from-no-key": at("distribution", {"configMapKeyRef": {"name": "a"}}),
    "distribution-from-odd-key": at("distribution", {"configMapKeyRef": {"name": "a", "key": "a/b"}}),
    "distribution-from-unknown-field": at(
        "distribution", {"configMapKeyRef": {"name": "a", "key": "b", "optional": True}}
    ),
    "distribution-from-and-own": at("distribution", {**CONFIG_MAP, "terminal": 100}),
    "extra-body-stream": at("model.extraBody", {"stream": True}),
    "extra-body-temperature": at("model.extraBody", {"temperature": 1}),
    "extra-body-temperature-half": at("model.extraBody", {"top_k": 40, "temperature": 0.5}),
    "extra-body-messages": at("model.extraBody", {"messages": [MESSAGE]}),
    "dataset-claim-and-inline": at("dataset.persistentVolumeClaim", {"claimName": "prompts", "path": "a.jsonl"}),
    "dataset-claim-leads-out": at("dataset", {"persistentVolumeClaim": {"claimName": "p", "path": "a/../../b"}}),
    "dataset-claim-absolute": at("dataset", {"persistentVolumeClaim": {"claimName": "p", "path": "/a"}}),
    "dataset-claim-without-path": at("dataset", {"persistentVolumeClaim": {"claimName": "p"}}),
    # what is needed
    "no-spec": without("spec"),
    "spec-null": laid_over("spec", None),
    "no-dataset": without("spec.dataset"),
    "no-output": without("spec.output"),
    "output-null": at("output", None),
    "no-bucket": at("output.s3", {}),
    "output-empty": at("output", {}),
    "secret-without-key": at("model.apiKeySecretRef", {"name": "a"}),
    "secret-key-null": at("model.apiKeySecretRef", {"name": "a", "key": None}),
    "message-without-content": at("agent.prefillMessages", [{"role": "user"}]),
    # what there is not
    "unknown-field": at("batchsize", 3),
    "unknown-field-null": at("batchsize", None),
    "snake-case": at("batch_size", 3),
    "snake-case-deep": at("agent.max_turns", 3),
    "unknown-field-deep": at("model.sampling.topK", 3),
    "unknown-field-top": laid_over("specs", {}),
    "unknown-field-in-list": at("agent.prefillMessages", [MESSAGE | {"name": "x"}]),
    "unknown-field-in-metadata": laid_over("metadata.nme", "x"),
    "unknown-resource": at("sandbox.resources.limits.gpu", 1),
    "other-version": laid_over("apiVersion", "batchrun.dev/v1"),
    # bounds
    "batch-size-0": at("batchSize", 0),
    "batch-size-101": at("batchSize", 101),
    "workers-0": at("numWorkers", 0),
    "workers-1001": at("numWorkers", 1001),
    "prompts-per-pod-0": at("promptsPerPod", 0),
    "max-samples-0": at("maxSamples", 0),
    "max-samples-over": at("maxSamples", 10**9 + 1),
    "samples-per-prompt-0": at("samplesPerPrompt", 0),
    "samples-per-prompt-over": at("samplesPerPrompt", 1001),
    "samples-of-all-prompts-over": spec_of(samplesPerPrompt=1000, maxSamples=10**6 + 1),
    "samples-and-seed-over": spec_of(samplesPerPrompt=2, model={"sampling": {"seed": 2**53}}),
    "turns-0": at("agent.maxTurns", 0),
    "temperature-over": at("model.sampling.temperature", 2.01),
    "temperature-under": at("model.sampling.temperature", -0.1),
    "top-p-0": at("model.sampling.topP", 0),
    "top-p-over": at("model.sampling.topP", 1.1),
    "seed-negative": at("model.sampling.seed", -1),
    "seed-over": at("model.sampling.seed", 2**53 + 2),
    "stop-empty": at("model.sampling.stop", []),
    "stop-five": at("model.sampling.stop", ["a", "b", "c", "d", "e"]),
    "stop-empty-text": at("model.sampling.stop", [""]),
    "failed-percent-101": at("failurePolicy.maxFailedPercent", 101),
    "deadline-over": at("activeDeadlineSeconds", 2**31),
    "ttl-negative": at("ttlSecondsAfterFinished", -1),
    "extra-body-65": at("model.extraBody", {f"k{number}": 1 for number in range(65)}),
    "affinity-4": at("podTemplate.affinity", {name: {} for name in "abcd"}),
    "labels-33": at("podTemplate.labels", {f"k{number}": "v" for number in range(33)}),
    "tolerations-33": at("podTemplate.tolerations", [{"key": "a"}] * 33),
    "prefill-empty": at("agent.prefillMessages", []),
    "run-name-long": at("runName", "r" * 101),
    "run-name-empty": at("runName", ""),
    "inline-long": at("dataset.inline", "x" * 131073),
    "inline-empty": at("dataset.inline", ""),
    "text-long": at("agent.systemPrompt", "ü" * 32769),
    "image-empty": at("sandbox.image", ""),
    "model-name-long": at("model.name", "m" * 257),
    "bucket-short": at("output.s3.bucket", "ab"),
    # patterns and enums
    "run-name-slash": at("runName", "a/b"),
    "run-name-newline": at("runName", "a\n"),
    "run-name-dot-first": at("runName", ".a"),
    "uri-ftp": at("dataset", {"uri": "ftp://host/a"}),
    "uri-file": at("dataset", {"uri": "file:///data/a.jsonl"}),
    "uri-blank": at("dataset", {"uri": "s3://bucket/a b"}),
    "url-without-host": at("model.baseURL", "https:///v1"),
    "url-other-scheme": at("output.s3.endpointURL", "minio:9000"),
    "url-port": at("model.baseURL", "http://host:99999/v1"),
    "url-with-a-password": at("model.baseURL", "http://joe:word@host/v1"),
    "url-with-a-user": at("model.baseURL", "http://joe@host/v1"),
    "url-with-a-query": at("model.baseURL", "http://host/v1?api-version=1"),
    "url-with-a-fragment": at("model.baseURL", "http://host/v1#x"),
    "uri-port": at("dataset", {"uri": "https://host:99999/a.jsonl"}),
    "bucket-upper": at("output.s3.bucket", "Results"),
    "prefix-slash-first": at("output.s3.prefix", "/a"),
    "prefix-slash-last": at("output.s3.prefix", "a/"),
    "region-blank": at("output.s3.region", "eu central"),
    "secret-name-upper": at("output.s3.credentialsSecretRef", {"name": "S3"}),
    "text-with-nul": at("agent.systemPrompt", "a\0b"),
    "label-value": at("podTemplate.labels", {"a": "b c"}),
    "label-key-empty": at("podTemplate.labels", {"": "b"}),
    "label-key-long": at("podTemplate.nodeSelector", {"a" * 318: "b"}),
    "policy-unknown": at("resumePolicy", "Always"),
    "policy-case": at("resumePolicy", "force"),
    "effort-unknown": at("model.reasoning.effort", "max"),
    "invalid-row-policy": at("dataset.onInvalidRow", "Ignore"),
    "pull-policy": at("sandbox.imagePullPolicy", "Sometimes"),
    "network-mode": at("sandbox.network.mode", "Internet"),
    "role": at("agent.prefillMessages", [{"role": "tool", "content": "x"}]),
    "level": at("logging.level", "trace"),
    # quantities
    "quantity-word": at("sandbox.resources.limits.cpu", "much"),
    "quantity-negative": at("sandbox.resources.limits.cpu", -1),
    "quantity-negative-text": at("sandbox.resources.limits.cpu", "-1"),
    "quantity-float": at("sandbox.resources.limits.cpu", 0.5),
    "quantity-bool": at("sandbox.resources.limits.cpu", True),
    "quantity-exponent": at("sandbox.resources.limits.memory", "1e9"),
    "quantity-list": at("sandbox.resources.limits.memory", []),
    # types
    "int-as-text": at("batchSize", "10"),
    "int-as-float": at("batchSize", 10.5),
    "int-as-bool": at("batchSize", True),
    "text-as-int": at("runName", 5),
    "text-as-bool": written("runName: off"),
    "bool-as-text": at("suspend", "true"),
    "bool-as-int": at("suspend", 1),
    "float-as-text": at("model.sampling.temperature", "1"),
    "float-as-bool": at("model.sampling.temperature", True),
    "list-as-object": at("agent.prefillMessages", MESSAGE),
    "object-as-list": at("model", []),
    "object-as-text": at("dataset", "s3://bucket/key"),
    "map-value-as-int": at("podTemplate.labels", {"a": 1}),
    "free-form-as-text": at("model.extraBody", "x"),
    "spec-as-list": laid_over("spec", []),
    # rules
    "two-sources": at("dataset.uri", "s3://bucket/key"),
    "three-sources": at("dataset", {"uri": "s3://b/k", "inline": "x", **CONFIG_MAP}),
    "no-source": at("dataset", {"onInvalidRow": "Skip"}),
    "two-ephemeral-prompts": at(
        "agent", {"ephemeralSystemPrompt": "a", "ephemeralSystemPromptFrom": {"secretKeyRef": SECRET_KEY}}
    ),
    "two-prefills": at("agent", {"prefillMessages": [MESSAGE], "prefillMessagesFrom": CONFIG_MAP}),
    "prompts-per-pod-over": spec_of(batchSize=3, promptsPerPod=4),
    "prompts-per-pod-over-default": at("promptsPerPod", 11),
    "effort-none-with-filter": at("model", {"reasoning": {"effort": "none"}}),
    "providers-elsewhere": at(
        "model", {"baseURL": "http://localhost:1/v1", "openRouter": {"providers": {"allowed": ["a"]}}}
    ),
    "providers-with-a-lookalike": at(
        "model", {"baseURL": "https://notopenrouter.ai/v1", "openRouter": {"providers": {"ignored": ["a"]}}}
    ),
    "providers-with-a-path": at(
        "model", {"baseURL": "https://a.example/openrouter.ai/", "openRouter": {"providers": {"order": ["a"]}}}
    ),
    "providers-of-another-server": at("model", {"server": "VLLM", "openRouter": {"providers": {"sort": "price"}}}),
    # metadata
    "name-upper": laid_over("metadata.name", "Name"),
    "name-underscore": laid_over("metadata.name", "a_b"),
    "name-two-dots": laid_over("metadata.name", "a..b"),
    "name-long": laid_over("metadata.name", "n" * 254),
    "name-as-int": laid_over("metadata.name", 5),
    "no-name": laid_over("metadata", {}),
    "labels-as-list": laid_over("metadata.labels", ["a"]),
    "label-of-metadata-as-int": laid_over("metadata.labels", {"a": 1}),
    # YAML
    "not-yaml": "a: [",
}

OPERATOR_SAYS: dict[str, Document | str] = {
    "distribution-number": at("distribution", 5),
    "distribution-unknown-toolset-beside": at("distribution", {"terminal": 100, "terminals": 100}),
    "extra-body-n": at("model.extraBody", {"n": 2}),
    "extra-body-provider-twice": at(
        "model", {"extraBody": {"provider": {}}, "openRouter": {"providers": {"sort": "price"}}}
    ),
}
"""Bad, but a structural schema cannot say so: the operator does, see api/batchrun_api/checks.py."""

ONLY_VALIDATE_SAYS: dict[str, Document | str] = {"key-twice": written("distribution: default")}
"""kubectl takes the last of two equal keys before the API server sees anything."""

CORPUS: dict[str, Document | str] = {**GOOD, **BAD, **OPERATOR_SAYS, **ONLY_VALIDATE_SAYS}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A file for each document, which has its case as its name where the name itself is not the case."""
    folder = tmp_path_factory.mktemp("corpus")
    found = {case: folder / f"{case}.yaml" for case in CORPUS}
    for case, document in CORPUS.items():
        text = document if isinstance(document, str) else json.dumps(document)
        found[case].write_text(re.sub(r'(name"?: "?)any\b', rf"\g<1>{case}", text))
    return found


@pytest.fixture(scope="module")
def accepted_by_server(cluster: Kubectl, files: dict[str, Path]) -> set[str]:
    """The cases of which the API server says that it would create them."""
    folder = next(iter(files.values())).parent
    said = cluster.run(
        "create", f"--filename={folder}", "--dry-run=server", "--validate=strict", "--output=name", check=False
    )
    names = set(re.findall(r"^batchrun\.batchrun\.dev/(\S+)$", said, re.MULTILINE))
    assert names, said
    return {case for case, file in files.items() if _name_in(file) in names}


def _name_in(file: Path) -> str:
    found = re.search(r'name"?: "?([^",}\n]+)', file.read_text())
    return found[1] if found else ""


def validate(file: Path) -> tuple[int, str]:
    """Exit code and words of `batchrun validate FILE`."""
    done = CliRunner().invoke(app, ["validate", str(file)])
    return done.exit_code, done.output


@pytest.mark.parametrize("case", CORPUS)
def test_validate_says_what_the_api_server_says(
    files: dict[str, Path], accepted_by_server: set[str], case: str
) -> None:
    code, words = validate(files[case])

    assert (code == 0) == (case in GOOD), f"batchrun validate: {words}"
    assert (case in accepted_by_server) == (case not in BAD), f"the API server, while batchrun validate says: {words}"
    assert code == 0 or re.search(rf"{case}\.yaml:\d+", words), "no place is named"


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ("distribution-unknown", "spec.distribution: Invalid value"),
        ("distribution-unknown-toolset", "spec.distribution"),
        ("distribution-over", "spec.distribution.terminal: Invalid value: 101"),
        ("distribution-empty", "spec.distribution in body should have at least 1 properties"),
        ("extra-body-temperature", "'temperature' is not for extraBody: use model.sampling.temperature"),
        ("extra-body-messages", "'messages' is not for extraBody: the agent makes them"),
    ],
)
def test_the_api_server_names_the_field(cluster: Kubectl, files: dict[str, Path], case: str, says: str) -> None:
    said = cluster.run("create", f"--filename={files[case]}", "--dry-run=server", check=False)

    assert says in said


def test_what_only_the_operator_can_refuse_ends_failed_with_the_same_words(
    namespace: Kubectl, files: dict[str, Path]
) -> None:
    for case in OPERATOR_SAYS:
        namespace.run("create", "-f", str(files[case]))

    for case in OPERATOR_SAYS:
        failed = _wait_failed(namespace, case)
        assert failed["reason"] == "InvalidSpec"
        _, words = validate(files[case])
        said = re.findall(r"\.yaml:\d+:\d+: (?:spec: )?(.*)", words)
        assert said, words
        assert all(problem in failed["message"] for problem in said), (said, failed)
    assert namespace.list("jobs") == []


def _wait_failed(kubectl: Kubectl, name: str) -> dict[str, Any]:
    def failed() -> dict[str, Any] | None:
        status = (kubectl.get("batchruns", name) or {}).get("status", {})
        return next((c for c in status.get("conditions", []) if c["type"] == "Failed" and c["status"] == "True"), None)

    return wait_for(f"{name} is refused", failed)


@pytest.fixture
def existing(namespace: Kubectl) -> Callable[[Document], str]:
    """Makes a suspended BatchRun and says what the API server answers when another document is applied over it."""
    namespace.apply(laid_over("spec.suspend", True) | {"metadata": {"name": "any"}})

    def change(document: Document) -> str:
        return namespace.run("apply", "-f", "-", stdin=json.dumps(document), check=False)

    return change


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("runName", "another", "runName cannot be changed"),
        ("output.s3.bucket", "another", "output cannot be changed"),
        ("output.s3.prefix", "another", "output cannot be changed"),
        ("output.s3.region", "eu-central-1", "output cannot be changed"),
    ],
)
def test_where_results_lie_cannot_be_changed(
    existing: Callable[[Document], str], path: str, value: str, says: str
) -> None:
    assert says in existing(at(path, value))


@pytest.mark.parametrize(
    ("path", "value"), [("numWorkers", 7), ("suspend", True), ("batchSize", 3), ("model.name", "m"), ("maxSamples", 1)]
)
def test_everything_else_can_be_changed(existing: Callable[[Document], str], path: str, value: object) -> None:
    document = laid_over("spec.suspend", True)
    document["spec"] |= at(path, value)["spec"] | {"suspend": True}

    assert "batchrun.batchrun.dev/any" in existing(document)


def test_kubectl_explains_each_field(cluster: Kubectl) -> None:
    explained = cluster.run("explain", "batchrun.spec.batchSize")

    assert "FIELD: batchSize <integer>" in explained
    assert "Prompts in a batch: one pod with a sandbox container for each prompt." in explained
    assert "credentialsSecretRef" in cluster.run("explain", "br.spec", "--recursive")


def test_kubectl_lists_runs_by_their_short_name_with_what_people_look_for(namespace: Kubectl) -> None:
    namespace.apply(laid_over("spec.suspend", True))
    wait_for("it is suspended", lambda: _phase(namespace) == "Suspended")

    header, line = namespace.run("get", "br").splitlines()

    assert header.split() == ["NAME", "PHASE", "DONE", "FAILED", "BATCHES", "MODEL", "AGE"]
    assert line.split()[:2] == ["any", "Suspended"]
    assert "anthropic/claude-sonnet-4.6" in line


def _phase(kubectl: Kubectl) -> str:
    return str((kubectl.get("batchruns", "any") or {}).get("status", {}).get("phase"))
