"""`sandbox.network.mode`, tried from inside a sandbox: what is reached with and without a policy, and the refusal of a
cluster that enforces none."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.cluster.harness.enforcement import is_enforced
from tests.cluster.harness.kubectl import Kubectl, wait_for
from tests.cluster.harness.model import ModelServer
from tests.cluster.harness.node import Node
from tests.cluster.harness.runs import SANDBOX_IMAGE, Run, Runs, demo_prompt
from tests.cluster.harness.services import serve_by_name
from tests.cluster.harness.talk import calls_prompt, results, run_python
from tests.cluster.testbed import cluster as testbed
from tests.cluster.testbed import policy
from tests.cluster.testbed.settings import API_PORT, PUBLIC_ADDRESS, PUBLIC_DEVICE
from tests.cluster.testbed.shell import run as run_on_node

METADATA = "169.254.169.254"
PORT = 8700
KUBELET_PORT = 10250

REACH = """
import json, socket, sys
found = {}
for word in sys.argv[1:]:
    name, host, port = word.split("=")
    try:
        socket.create_connection((host, int(port)), 3).close()
        found[name] = "reached"
    except OSError:
        found[name] = "blocked"
print(json.dumps(found))
"""
LISTEN = f"""
import socket
listener = socket.create_server(("0.0.0.0", {PORT}))
open("/tmp/listens", "w").close()
listener.accept()
open("/tmp/visited", "w").close()
"""
WAIT_FOR_VISIT = """
for _ in $(seq 150); do [ -e /tmp/visited ] && break; sleep 0.1; done
[ -e /tmp/listens ] && [ -e /tmp/visited ] && echo visited || echo alone
"""
VISIT = f"""
import socket, sys, time
end = time.monotonic() + 25
while time.monotonic() < end:
    try:
        socket.create_connection((sys.argv[1], {PORT}), 1).close()
        break
    except OSError:
        time.sleep(0.1)
"""

NEAR = ("API server", "API server's endpoint", "metadata", "other pod", "kubelet", "other port of the node")
FAR = ("public address", "model", "store", "name server")


@pytest.fixture
def metadata_address(node: Node) -> Iterator[str]:
    """The address where clouds serve credentials, for a moment one of this machine's."""
    words = [f"{METADATA}/32", "dev", PUBLIC_DEVICE]
    run_on_node(["ip", "address", "replace", *words])
    yield METADATA
    run_on_node(["ip", "address", "delete", *words])


def neighbour(kubectl: Kubectl) -> tuple[str, str]:
    """Name and address of a pod of somebody else that serves on PORT."""
    container = {
        "name": "neighbour",
        "image": SANDBOX_IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-m", "http.server", str(PORT)],
    }
    spec = {"automountServiceAccountToken": False, "terminationGracePeriodSeconds": 1, "containers": [container]}
    kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "neighbour"}, "spec": spec})

    def address() -> str | None:
        status = (kubectl.get("pods", "neighbour") or {}).get("status", {})
        return status.get("podIP") if status.get("phase") == "Running" else None

    return "neighbour", wait_for("the neighbour runs", address)


@contextmanager
def visits(kubectl: Kubectl, neighbour: str, run: Run) -> Iterator[None]:
    """The neighbour knocks at the sandbox's server as soon as its pod runs."""
    pod = wait_for("a batch pod runs", run.running_pod, 120)
    visitor = kubectl.popen("exec", neighbour, "--", "python3", "-c", VISIT, pod["status"]["podIP"])
    try:
        yield
    finally:
        try:
            visitor.communicate(timeout=40)
        except subprocess.TimeoutExpired:
            visitor.kill()
            raise


def at(name: str, url: str) -> str:
    parts = urlsplit(url)
    return f"{name}={parts.hostname}={parts.port}"


@pytest.mark.timeout(400)
def test_by_default_a_sandbox_reaches_the_internet_model_and_store_and_nothing_near_and_nobody_reaches_it(
    runs: Runs, node_address: str, metadata_address: str
) -> None:
    kubectl = runs.kubectl
    name, pod_address = neighbour(kubectl)
    service = json.loads(kubectl.within("default").run("get", "service", "kubernetes", "-o", "json"))["spec"]
    with ModelServer("0.0.0.0") as anywhere:
        port = urlsplit(anywhere.base_url).port
        targets = [
            f"API server={service['clusterIP']}=443",
            f"API server's endpoint={node_address}={API_PORT}",
            f"metadata={metadata_address}={port}",
            f"other pod={pod_address}={PORT}",
            f"kubelet={node_address}={KUBELET_PORT}",
            f"other port of the node={node_address}={port}",
            f"public address={PUBLIC_ADDRESS}={port}",
            at("model", runs.model.base_url),
            at("store", runs.bucket.endpoint_url),
            "name server=kube-dns.kube-system.svc=53",
        ]
        prompt = calls_prompt(
            "looks around",
            ("write_file", {"path": "/tmp/listen.py", "content": LISTEN}),
            ("terminal", {"command": "python3 /tmp/listen.py", "background": True}),
            run_python(REACH, *[target.replace("'", "'\\''") for target in targets]),
            ("terminal", {"command": WAIT_FOR_VISIT}),
        )
        found = {}
        for mode, sandbox in {"open": {"network": {"mode": "Open"}}, "unset": {}}.items():
            run = runs.start(mode, [{"prompt": prompt}], sandbox=sandbox)
            with visits(kubectl, name, run):
                run.wait_complete(150)
            found[mode] = what_was_found(run)

    assert found["open"] == (dict.fromkeys([*NEAR, *FAR], "reached"), "visited"), "the test itself sees nothing"
    assert found["unset"] == (dict.fromkeys(NEAR, "blocked") | dict.fromkeys(FAR, "reached"), "alone")
    (made,) = json.loads(kubectl.run("get", "networkpolicies", "-o", "json"))["items"]
    assert made["metadata"]["ownerReferences"][0]["name"] == "unset"


def what_was_found(run: Run) -> tuple[dict[str, str], str]:
    """By target, and whether somebody came in."""
    (row,) = run.rows()
    told = [result["output"] for result in results(row) if result.get("output")]
    return json.loads(told[-2]), told[-1].strip()


@pytest.mark.timeout(300)
def test_the_policy_follows_the_models_addresses_while_batches_run_and_comes_back_when_somebody_deletes_it(
    runs: Runs,
) -> None:
    name, port = serve_by_name(runs)
    run = runs.start(
        "long", [{"prompt": demo_prompt("sleeps", "sleep 250")}], model={"baseURL": f"http://{name}:{port}/v1"}
    )
    wait_for("its batch runs", run.running_pod, 120)

    def opened() -> list[str]:
        """Addresses that are open at the model's port."""
        items = json.loads(runs.kubectl.run("get", "networkpolicies", "-o", "json"))["items"]
        rules = [rule for item in items for rule in item["spec"]["egress"]]
        ours = [rule for rule in rules if rule.get("ports") == [{"protocol": "TCP", "port": port}]]
        return [peer["ipBlock"]["cidr"] for rule in ours for peer in rule["to"]]

    before = opened()
    assert len(before) == 1
    serve_by_name(runs, "10.9.9.9")
    wait_for("the new address is open", lambda: set(opened()) == {*before, "10.9.9.9/32"}, 90)
    runs.kubectl.run("delete", "networkpolicies", "--all")
    wait_for("the policy is back", lambda: set(opened()) == {*before, "10.9.9.9/32"}, 90)


@pytest.mark.alone
@pytest.mark.timeout(420)
def test_a_cluster_that_enforces_no_policy_is_refused_with_the_fix_and_goes_on_once_it_does(
    runs: Runs, node: Node, cluster: Kubectl
) -> None:
    context = testbed.make_context()
    testbed.stop(context, policy.NAME)
    try:
        policy.remove_rules()
        assert not is_enforced(cluster, SANDBOX_IMAGE)
        run = runs.start("unenforced", [{"prompt": demo_prompt("works", "echo fine")}])
        ended = run.wait_ended(150)
        assert (ended["type"], ended["reason"]) == ("Failed", "NetworkNotEnforced")
        assert "still answers" in ended["message"]
        assert "Install a policy engine" in ended["message"]
        assert "sandbox.network.mode to Denied or Open" in ended["message"]
        assert runs.model.requests == 0, "a prompt was begun"
        prompts: dict[str, Any] = run.status["prompts"]
        assert prompts["notRun"] == prompts["total"] == 1

        not_asked = runs.start("open", [{"prompt": "any"}], sandbox={"network": {"mode": "Open"}})
        assert not_asked.wait_complete(90)["prompts"]["completed"] == 1
    finally:
        testbed.start(context, policy.NAME)
    assert is_enforced(cluster, SANDBOX_IMAGE)
    runs.kubectl.run("annotate", "batchrun", run.name, "batchrun.dev/retry=1", "--overwrite")
    wait_for("it begins again", lambda: run.condition("Failed") is None, 60)
    assert run.wait_complete(120)["prompts"]["completed"] == 1
