"""Data sets from the places that only a cluster has."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import yaml

from tests.cluster.harness.evidence import assert_every_prompt_once, prompt_of, requests_by_prompt
from tests.cluster.harness.kubectl import Kubectl, wait_for
from tests.cluster.harness.node import Node
from tests.cluster.harness.runs import Runs, jsonl

ROWS = [{"id": f"p{number}", "prompt": f"Prompt {number} of a claim."} for number in range(4)]
FILE = "sets/prompts.jsonl"


@pytest.fixture
def claim(node: Node, namespace: Kubectl, cluster: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A claim on a folder of our own node that holds the data set."""
    folder = tmp_path_factory.mktemp("volume")
    file = folder / FILE
    file.parent.mkdir()
    file.write_text(jsonl(ROWS))
    folder.chmod(0o755)
    file.parent.chmod(0o755)
    file.chmod(0o644)
    volume = f"{namespace.namespace}-prompts"
    common: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "volumeMode": "Filesystem",
    }
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume},
            "spec": common
            | {
                "capacity": {"storage": "1Gi"},
                "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": str(folder), "type": "Directory"},
            },
        }
    )
    namespace.apply(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "prompts"},
            "spec": common | {"volumeName": volume, "resources": {"requests": {"storage": "1Gi"}}},
        }
    )
    yield "prompts"
    cluster.run("delete", "persistentvolume", volume, "--wait=false")


@pytest.mark.timeout(300)
def test_a_data_set_in_a_claim_is_read_by_the_plan_pod_alone(runs: Runs, claim: str) -> None:
    # The base document's data set is inline; a null takes it away.
    source = {"inline": None, "persistentVolumeClaim": {"claimName": claim, "path": FILE}}
    run = runs.start("from-claim", [], dataset=source)
    run.wait_complete(180)

    assert_every_prompt_once(run.rows(), ROWS)
    mounting = {
        pod["metadata"]["labels"]["batchrun.dev/role"]
        for pod in run.pods()
        if any("persistentVolumeClaim" in volume for volume in pod["spec"]["volumes"])
    }
    assert mounting == {"plan"}

    missing = runs.start(
        "no-such-file", [], dataset=source | {"persistentVolumeClaim": {"claimName": claim, "path": "none.jsonl"}}
    )
    failed = wait_for("it is refused", lambda: missing.condition("Failed"), 90)
    assert failed["reason"] == "DatasetUnreadable"
    assert f"none.jsonl of PersistentVolumeClaim {claim} does not exist; correct the path" in failed["message"]


@contextmanager
def served(address: str, body: bytes) -> Iterator[str]:
    """The address of a web server that answers with this body, after a redirect."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

        def do_GET(self) -> None:
            if self.path == "/moved.jsonl":
                self.send_response(302)
                self.send_header("Location", "/here.jsonl")
                self.end_headers()
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer((address, 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://{address}:{server.server_address[1]}/moved.jsonl"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.timeout(300)
def test_data_sets_from_elsewhere_are_read_again_as_they_changed(runs: Runs, node_address: str) -> None:
    first, bad = jsonl(ROWS[:3]), '{"prompt": 5}\n'
    key = f"{runs.kubectl.namespace}/sets/packed.jsonl"
    runs.bucket.client.put_object(Bucket=runs.bucket.name, Key=key, Body=gzip.compress((bad + first).encode()))
    source = {"inline": None, "uri": f"s3://{runs.bucket.name}/{key}", "onInvalidRow": "Skip"}
    run = runs.start("elsewhere", [], dataset=source)
    run.wait_complete(150)
    assert_every_prompt_once(run.rows(), ROWS[:3])
    planned = run.condition("Planned")
    assert planned
    assert "1 invalid row" in planned["message"]
    (rejected,) = runs.bucket.rows(f"{run.prefix}/rejected.jsonl")
    assert rejected["line"] == 1
    asked = requests_by_prompt(runs.model.bodies)

    # Another place, another order, one row less and one more.
    rows = [ROWS[2], ROWS[3], ROWS[0]]
    with served(node_address, jsonl(rows).encode()) as address:
        run.document["spec"]["dataset"] = {"uri": address}
        run.replace()
        status = run.wait_complete(150)

    assert (status["prompts"]["completed"], status["prompts"]["orphaned"]) == (3, 1)
    assert_every_prompt_once(run.rows()[:3], rows)
    assert [(row["prompt_index"], prompt_of(row)) for row in run.rows()[3:]] == [(-1, ROWS[1]["prompt"])]
    asked_again = requests_by_prompt(runs.model.bodies) - asked
    assert set(asked_again) == {ROWS[3]["prompt"]}


def test_the_distributions_are_listed_in_a_config_map(cluster: Kubectl) -> None:
    listed = cluster.within("batchrun-system").get("configmaps", "batchrun-distributions")

    assert listed
    assert len(yaml.safe_load(listed["data"]["distributions.yaml"])) == 17
