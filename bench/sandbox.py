"""Sandboxes of a pod on a real cluster: a command beside `pods/exec`, memory while idle, and how fast they come.

The pod is the one that the operator makes for a batch, with a probe in the runner's place. Without a cluster there is
one line that says so.
"""

import json
import os
import secrets
import shutil
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kubernetes.client import CoreV1Api
from kubernetes.config import new_client_from_config
from kubernetes.stream import stream
from tests.cluster.harness.kubectl import Kubectl, wait_for

from batchrun_api.names import RUNNER_CONTAINER, sandbox_container
from batchrun_api.plan import Plan, PlanCounts, PlannedBatch
from batchrun_api.spec import BatchRunSpec
from batchrun_operator.manifests import Subject, batch_job, config_map
from batchrun_operator.settings import PodSettings

ROOT = Path(__file__).parents[1]
PROBE = Path(__file__).with_name("pod_probe.py")
SANDBOXES = 30
ROUNDS = int(os.environ.get("BATCHRUN_BENCH_ROUNDS", "3"))
"""Pods, for the time that sandboxes take to come. Commands are measured in the last one."""
COMMANDS = int(os.environ.get("BATCHRUN_BENCH_COMMANDS", "2000"))
EXECS = max(COMMANDS // 10, 1)
SANDBOX_IMAGE = "batchrun-test-python:dev"
PLAN_ID = "0000000000"
START_SECONDS = 300


def compare(_: Path) -> Iterator[str]:
    """Lines with the figures."""
    found = _cluster()
    if found is None:
        yield "sandboxes of a pod: left out, no cluster is up (make cluster-install)"
        return
    cluster, kubeconfig = found
    name = f"bench-{secrets.token_hex(4)}"
    cluster.run("create", "namespace", name)
    try:
        yield from _figures(cluster.within(name), kubeconfig)
    finally:
        cluster.run("delete", "namespace", name, "--wait=false")


def _cluster() -> tuple[Kubectl, Path] | None:
    kubeconfig = ROOT / ".cluster" / "kubeconfig"
    if not kubeconfig.is_file():
        kubeconfig = Path(os.environ.get("KUBECONFIG", ""))
    program = shutil.which("kubectl", path=f"{ROOT / '.cluster' / 'bin'}:{os.environ['PATH']}")
    if not kubeconfig.is_file() or program is None:
        return None
    kubectl = Kubectl(program, kubeconfig, "default")
    is_up = "ok" in kubectl.run("get", "--raw=/readyz", "--request-timeout=5s", check=False).splitlines()
    return (kubectl, kubeconfig) if is_up else None


def _figures(kubectl: Kubectl, kubeconfig: Path) -> Iterator[str]:
    probes: list[dict[str, Any]] = []
    direct: list[float] = []
    for number in range(ROUNDS):
        pod = f"probe-{number}"
        probes.append(_probe(kubectl, pod))
        if number == ROUNDS - 1:
            direct = _timed_execs(kubeconfig, kubectl.namespace, pod)
        kubectl.run("delete", "pod", pod, "--grace-period=0", "--force", "--wait=false")
    last = probes[-1]
    came = [max(probe["came"]) for probe in probes]
    yield f"a command through the helper in a pod of {SANDBOXES} sandboxes: {_spread(last['commands'])}"
    yield f"  through pods/exec, same pod, same command: {_spread(direct)}"
    ratio = statistics.median(direct) / statistics.median(last["commands"])
    yield f"  pods/exec takes {ratio:.0f} times as long at p50"
    yield (
        f"an idle sandbox: {_most(last['resident'])} resident in its helper, {_most(last['charged'])} charged to its "
        f"container, the largest of {SANDBOXES} (goal 8 MB)"
    )
    yield (
        f"start of {SANDBOXES} sandboxes after the runner listens: {statistics.median(came):.1f} s "
        f"({min(came):.1f} to {max(came):.1f} s in {ROUNDS} pods)"
    )


def _probe(kubectl: Kubectl, name: str) -> dict[str, Any]:
    """Make the pod; the figures that its probe writes."""
    kubectl.apply(*_manifests(kubectl, name))

    def told() -> dict[str, Any] | None:
        log = kubectl.run("logs", name, "-c", RUNNER_CONTAINER, "--tail=1", check=False)
        if not log.startswith('{"came"'):
            return None
        figures: dict[str, Any] = json.loads(log)
        return figures | {"commands": [one / 1e6 for one in figures["microseconds"]]}

    return wait_for(f"{name} tells its figures", told, START_SECONDS, poll_seconds=1)


def _manifests(kubectl: Kubectl, name: str) -> list[dict[str, Any]]:
    """The pod of a batch of SANDBOXES prompts, and the configuration that it mounts."""
    operator = kubectl.within("batchrun-system").get("deployments", "batchrun") or {}
    environment = operator["spec"]["template"]["spec"]["containers"][0]["env"]
    image = next(variable["value"] for variable in environment if variable["name"] == "BATCHRUN_RUNNER_IMAGE")
    spec = {
        "dataset": {"inline": '{"prompt": "none is asked"}'},
        "sandbox": {"image": SANDBOX_IMAGE, "imagePullPolicy": "IfNotPresent"},
        "output": {"s3": {"bucket": "none"}},
    }
    pods = PodSettings(runner_image=image, runner_image_pull_policy="IfNotPresent")
    subject = Subject(name, kubectl.namespace, "none", BatchRunSpec.model_validate(spec), PLAN_ID, pods)
    batch = PlannedBatch(number=0, offset=0, length=1, images=[-1] * SANDBOXES)
    counts = PlanCounts(total=SANDBOXES, done=0, to_run=SANDBOXES)
    plan = Plan(plan_id=PLAN_ID, counts=counts, batches=[batch])
    template = batch_job(subject, plan, batch, 1)["spec"]["template"]
    runner = next(one for one in template["spec"]["containers"] if one["name"] == RUNNER_CONTAINER)
    runner["command"] = ["/opt/batchrun/bin/python", "-c", PROBE.read_text()]
    runner["args"] = [str(SANDBOXES), str(COMMANDS)]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": template["spec"]}
    configuration = config_map(subject)
    configuration["metadata"] = {"name": configuration["metadata"]["name"]}
    return [configuration, pod]


def _timed_execs(kubeconfig: Path, namespace: str, pod: str) -> list[float]:
    """Seconds of EXECS times `echo x` over the API server, each a request of its own as a controller makes it."""
    api = CoreV1Api(new_client_from_config(str(kubeconfig)))  # type: ignore[no-untyped-call]
    seconds = []
    for _ in range(EXECS):
        began = time.perf_counter()
        said = stream(
            api.connect_get_namespaced_pod_exec,
            pod,
            namespace,
            container=sandbox_container(0),
            command=["sh", "-c", "echo x"],
            stdout=True,
            stderr=True,
        )
        seconds.append(time.perf_counter() - began)
        assert said == "x\n", said
    return seconds


def _spread(seconds: Sequence[float]) -> str:
    ordered = sorted(seconds)
    p99 = ordered[min(len(ordered) * 99 // 100, len(ordered) - 1)]
    return f"p50 {statistics.median(ordered) * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms of {len(ordered)}"


def _most(sizes: Sequence[int]) -> str:
    return f"{max(sizes) / 1e6:.1f} MB"
