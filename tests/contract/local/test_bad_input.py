"""Every bad data set and bad configuration of the field reports, given to a real process.

Each is refused with file, line or field, reason code and fix; exit code 2; and no model was asked.
"""

from __future__ import annotations

import codecs
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.harness.model import ModelServer
from tests.contract.local.support import Workplace, environment

GOOD = b'{"prompt":"p"}\n'
TEXT = GOOD.decode()

DATA_SETS: dict[str, tuple[bytes, list[str]]] = {
    "a01 UTF-16 without a mark": (TEXT.encode("utf-16-le"), ["looks like UTF-16", "save it as UTF-8"]),
    "a01 UTF-32": (TEXT.encode("utf-32"), ["is UTF-32", "save it as UTF-8"]),
    "a01 damaged UTF-16": (codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le")[:-1], ["is damaged"]),
    "a02 nothing but blank lines": (b"\r\n\n  \n", ["holds no prompt", "give at least one row"]),
    "a02 a bad row after blank lines": (
        b"\r\n\r\n" + GOOD + b"oops\r\n",
        ["line 4: it is not JSON", "correct the JSON"],
    ),
    "a03 two values": (b'{"prompt":"p1"}{"prompt":"p2"}\n', ["line 1: more text follows", "a line of its own"]),
    "a03 rubbish after the value": (b'{"prompt":"p3"} ]\n', ["line 1: more text follows", "a line of its own"]),
    "a03 cut off": (GOOD + b'{"prompt":"p4', ["line 2: the JSON is cut off", "write the whole object on one line"]),
    "a06 NaN": (b'{"prompt":"p","temperature":NaN}\n', ["line 1: NaN is not JSON", "use null or a number"]),
    "a06 too large": (b'{"prompt":"p","x":1e999}\n', ["line 1: the number 1e999 is too large", "write it as a string"]),
    "a07 number": (b'{"prompt":123}\n', ["line 1: `prompt` is a number", "give the text as a JSON string"]),
    "a07 null": (b'{"prompt":null}\n', ["line 1: `prompt` is null", "give the text as a JSON string"]),
    "a07 empty": (b'{"prompt":""}\n', ["line 1: `prompt` is empty", "give it a text or remove the row"]),
    "a07 list": (b'{"prompt":["a"]}\n', ["line 1: `prompt` is a list", "give the text as a JSON string"]),
    "a07 wrong key": (
        b'{"Prompt":"x"}\n',
        ["line 1: it has no key `prompt` (found `Prompt`)", "name the text `prompt`"],
    ),
    "a07 bare string": (b'"prompt"\n', ["line 1: it is a JSON string", "write an object like"]),
    "a07 bare number": (b"5\n", ["line 1: it is a JSON number", "write an object like"]),
    "a07 array": (b'["prompt"]\n', ["line 1: it is a JSON list", "without a list around them"]),
    "a08 one huge row": (
        GOOD + json.dumps({"prompt": "x" * 20_000_000}).encode() + b"\n" + GOOD,
        ["line 2: the row has 20000014 bytes", "shorten it or move its data into files"],
    ),
    "not UTF-8": (b'{"prompt":"\xe9"}\n', ["line 1: byte 12 is not UTF-8", "save the data set as UTF-8"]),
    "gzip that was cut": (gzip.compress(GOOD * 100)[:-12], ["gzip", "cut"]),
    "gzip twice": (gzip.compress(gzip.compress(GOOD)), ["compressed with gzip twice", "compress it once"]),
    "a zip archive": (b"PK\x03\x04" + bytes(30), ["is a zip archive", "give JSON lines"]),
    "a Parquet file": (b"PAR1" + bytes(30), ["is a Parquet file", "give JSON lines"]),
}


def refusal(place: Workplace, model: ModelServer) -> str:
    """What the process says on refusing; checks what holds for every refusal."""
    done = place.run("--sandbox", "process", environ=environment(OPENAI_API_KEY="sk-test"))

    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert model.requests == 0
    assert not (place.result / "trajectories.jsonl").exists()
    return done.stderr


@pytest.mark.parametrize(("data", "says"), DATA_SETS.values(), ids=DATA_SETS.keys())
def test_a_bad_data_set_is_refused_by_file_line_reason_and_fix(
    place: Workplace, model: ModelServer, data: bytes, says: list[str]
) -> None:
    (place.folder / "prompts.jsonl").write_bytes(data)
    place.spec(model={"name": "demo/scripted", "baseURL": model.base_url})

    said = refusal(place, model)

    assert [word for word in ["prompts.jsonl", *says] if word not in said] == [], said
    assert said.rstrip().endswith(("(DatasetInvalid)", "(DatasetUnreadable)"))
    assert len(said.splitlines()) == 1


def with_model(**fields: Any) -> dict[str, Any]:
    """A configuration that differs in the model's fields; `baseURL` is filled in by the test."""
    return {"model": {"name": "demo/scripted", **fields}}


CONFIGURATIONS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no source": ({"dataset": {}}, ["spec.dataset:", "exactly one source", "(InvalidSpec)"]),
    "two sources": (
        {"dataset": {"uri": "file://prompts.jsonl", "inline": TEXT}},
        ["spec.dataset:", "exactly one source", "(InvalidSpec)"],
    ),
    "a data set that is not there": (
        {"dataset": {"uri": "file://none.jsonl"}},
        ["none.jsonl does not exist", "correct the path", "(DatasetUnreadable)"],
    ),
    "a folder as data set": ({"dataset": {"uri": "file://."}}, ["Is a directory", "(DatasetUnreadable)"]),
    "an address that nobody serves": (
        {"dataset": {"uri": "http://127.0.0.1:9/prompts.jsonl"}},
        ["http://127.0.0.1:9/prompts.jsonl cannot be read", "(DatasetUnreadable)"],
    ),
    "a bucket without an object": (
        {"dataset": {"uri": "s3://bucket"}},
        ["s3://bucket", "s3://bucket/path/to/prompts.jsonl", "(DatasetUnreadable)"],
    ),
    "a claim, which only a cluster has": (
        {"dataset": {"persistentVolumeClaim": {"claimName": "prompts", "path": "a.jsonl"}}},
        ["spec.dataset.persistentVolumeClaim:", "dataset.uri: file://", "(InvalidSpec)"],
    ),
    "a path that leads out of its claim": (
        {"dataset": {"persistentVolumeClaim": {"claimName": "prompts", "path": "../a.jsonl"}}},
        ["spec.dataset.persistentVolumeClaim:", "without . or ..", "(InvalidSpec)"],
    ),
    "unknown field": ({"batchsize": 3}, ["spec.batchsize:", "there is no such field", "(InvalidSpec)"]),
    "out of bounds": ({"batchSize": 0}, ["spec.batchSize:", "must be at least 1", "(InvalidSpec)"]),
    "unknown distribution": ({"distribution": "everything"}, ["spec.distribution:", "terminal_only", "(InvalidSpec)"]),
    "a filter that would discard everything": (
        with_model(reasoning={"effort": "none"}),
        ["spec:", "filters.requireReasoning", "set it to false", "(InvalidSpec)"],
    ),
    "a network that only a cluster can make": (
        {"sandbox": {"network": {"mode": "InternetOnly"}}},
        ["spec.sandbox.network.mode:", "one machine has none", "set Denied", "leave it out", "(InvalidSpec)"],
    ),
    "prefill messages that are no list": (
        {"agent": {"prefillMessages": {"role": "user"}}},
        ["spec.agent.prefillMessages:", "list", "(InvalidSpec)"],
    ),
}


@pytest.mark.parametrize(("spec", "says"), CONFIGURATIONS.values(), ids=CONFIGURATIONS.keys())
def test_a_bad_configuration_is_refused_by_file_field_reason_and_fix(
    place: Workplace, model: ModelServer, spec: dict[str, Any], says: list[str]
) -> None:
    (place.folder / "prompts.jsonl").write_bytes(GOOD)
    place.spec(**{"model": {"name": "demo/scripted"}, **spec})
    document = json.loads((place.folder / "run.yaml").read_text())
    document["spec"]["model"]["baseURL"] = model.base_url
    (place.folder / "run.yaml").write_text(json.dumps(document, indent=1))

    said = refusal(place, model)

    assert [word for word in says if word not in said] == [], said
    if "(InvalidSpec)" in said:
        assert said.startswith("run.yaml:")


def test_results_of_another_configuration_are_refused_with_reason_and_fix(place: Workplace, model: ModelServer) -> None:
    (place.folder / "prompts.jsonl").write_bytes(GOOD)
    assert place.run().returncode == 0
    (place.result / "trajectories.jsonl").unlink()
    place.spec(model={"name": "another/model", "baseURL": model.base_url})

    said = refusal(place, model)

    assert "changed: model" in said
    assert "resumePolicy: Force" in said
    assert said.rstrip().endswith("(ConfigChanged)")


def test_results_are_never_gone_on_from_where_that_is_forbidden(place: Workplace, model: ModelServer) -> None:
    (place.folder / "prompts.jsonl").write_bytes(GOOD)
    assert place.run().returncode == 0
    (place.result / "trajectories.jsonl").unlink()
    place.spec(model={"name": "demo/scripted", "baseURL": model.base_url}, resumePolicy="Never")

    said = refusal(place, model)

    assert str(Path("out/here")) in said
    assert "set it to Continue" in said
    assert said.rstrip().endswith("(OutputNotEmpty)")
