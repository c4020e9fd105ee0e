"""The chart: lint, what it renders, and that the operator may do what it does and nothing else."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from batchrun_api.toolsets import DISTRIBUTIONS
from batchrun_operator.settings import from_environ

REPO = Path(__file__).parents[3]
CHART = REPO / "charts" / "batchrun"
Documents = dict[tuple[str, str], dict[str, Any]]


def find_helm() -> str | None:
    """Of the test cluster, of the PATH, or built once into the cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "batchrun"
    built = [REPO / ".cluster" / "bin" / "helm", *sorted(cache.glob("helm-*/helm"))]
    return next((str(path) for path in built if os.access(path, os.X_OK)), None) or shutil.which("helm")


HELM = find_helm()
pytestmark = pytest.mark.skipif(HELM is None, reason="no helm here: `make cluster-up` builds one")


def helm(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(HELM), *words], capture_output=True, text=True, check=False, timeout=60)


def render(*settings: str, namespace: str = "sys", release: str = "batchrun") -> Documents:
    flags = [word for setting in settings for word in ("--set-json", setting)]
    done = helm("template", release, str(CHART), "--namespace", namespace, "--kube-version", "1.37.0", *flags)
    assert done.returncode == 0, done.stderr
    documents = [document for document in yaml.safe_load_all(done.stdout) if document]
    return {
        (item["kind"], item["metadata"].get("namespace", "") + "/" + item["metadata"]["name"]): item
        for item in documents
    }


def refused(setting: str) -> str:
    done = helm("template", "batchrun", str(CHART), "--kube-version", "1.37.0", "--set-json", setting)
    assert done.returncode != 0
    return done.stderr


def container(documents: Documents) -> dict[str, Any]:
    found: dict[str, Any] = documents["Deployment", "sys/batchrun"]["spec"]["template"]["spec"]["containers"][0]
    return found


def environment(documents: Documents) -> dict[str, str]:
    return {item["name"]: item["value"] for item in container(documents)["env"]}


def test_lint_has_nothing_to_say() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_chart_has_the_version_of_the_package() -> None:
    version = re.search(r'^version = "(.+)"$', (REPO / "pyproject.toml").read_text(), re.MULTILINE)
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert version is not None
    assert chart["version"] == chart["appVersion"] == version[1]


def test_the_crd_is_the_generated_one() -> None:
    name = "batchruns.batchrun.dev.yaml"
    assert (CHART / "crds" / name).read_text() == (REPO / "crds" / name).read_text()


def test_every_value_is_known_to_the_schema_and_commented() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert set(values) == set(schema["properties"]) - {"global"}
    lines = (CHART / "values.yaml").read_text().splitlines()
    for number, line in enumerate(lines):
        if re.match(r"[a-zA-Z]+:", line) and number:
            before = lines[number - 1]
            assert before.startswith("#") or re.match(r"[a-zA-Z]+:", before), f"no comment before {line}"


RULES = {
    ("batchrun.dev", "batchruns"): {"get", "list", "watch"},
    ("batchrun.dev", "batchruns/status"): {"update"},
    ("batch", "jobs"): {"get", "list", "watch", "create", "delete"},
    ("", "configmaps"): {"get", "list", "create", "delete"},
    ("", "pods"): {"get", "list", "watch", "patch", "delete"},
    ("", "pods/log"): {"get"},
    ("", "events"): {"list", "create"},
    ("networking.k8s.io", "networkpolicies"): {"get", "create", "patch", "delete"},
    ("", "services"): {"get"},
    ("discovery.k8s.io", "endpointslices"): {"get", "list"},
}
"""DESIGN.md section 1, and of it what is used."""


def granted(role: dict[str, Any]) -> dict[tuple[str, str], set[str]]:
    return {
        (group, resource): set(rule["verbs"])
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_the_operator_may_do_this_and_nothing_else() -> None:
    assert granted(render()["ClusterRole", "/batchrun"]) == RULES


def test_with_namespaces_there_is_nothing_cluster_wide() -> None:
    documents = render('runs.namespaces=["a","b"]')
    kinds = [kind for kind, _ in documents]
    assert "ClusterRole" not in kinds
    assert "ClusterRoleBinding" not in kinds
    for namespace in ("a", "b"):
        assert granted(documents["Role", f"{namespace}/batchrun"]) == RULES
        binding = documents["RoleBinding", f"{namespace}/batchrun"]
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "batchrun", "namespace": "sys"}]
    outside = documents["Role", "default/batchrun-api-server"]
    assert granted(outside) == {("", "services"): {"get"}, ("discovery.k8s.io", "endpointslices"): {"get"}}
    assert all(rule["resourceNames"] == ["kubernetes"] for rule in outside["rules"])
    assert documents["RoleBinding", "default/batchrun-api-server"]["subjects"] == binding["subjects"]
    assert environment(documents)["BATCHRUN_NAMESPACES"] == "a,b"


def test_the_operator_satisfies_pod_security_restricted() -> None:
    pod = render()["Deployment", "sys/batchrun"]["spec"]["template"]["spec"]
    security = pod["containers"][0]["securityContext"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert security["allowPrivilegeEscalation"] is False
    assert security["readOnlyRootFilesystem"] is True
    assert security["capabilities"] == {"drop": ["ALL"]}


def test_never_two_operators_at_a_time() -> None:
    spec = render()["Deployment", "sys/batchrun"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_the_operator_understands_the_environment_that_the_chart_makes() -> None:
    settings = from_environ(
        environment(
            render(
                'runnerImage={"repository":"r.example/runner","tag":"7","pullPolicy":"Never"}',
                'operator={"maxAttempts":3,"resyncSeconds":30,"logLevel":"debug"}',
                'runs.namespaces=["a","b"]',
                'network.blockedRanges=["203.0.113.0/24","2001:db8::/32"]',
            )
        )
    )
    assert settings.pods.blocked_ranges == ("203.0.113.0/24", "2001:db8::/32")
    assert settings.pods.runner_image == "r.example/runner:7"
    assert settings.pods.runner_image_pull_policy == "Never"
    assert settings.pods.runner_resources.requests.memory == "256Mi"
    assert settings.pods.browser_image.startswith("ghcr.io/batchrun/batchrun-browser:")
    assert settings.pods.browser_resources.limits.memory == "2Gi"
    assert settings.namespaces == ("a", "b")
    assert (settings.limits.max_attempts, settings.resync_seconds, settings.log_level) == (3, 30, "DEBUG")


def test_images_are_of_the_charts_version_unless_told_otherwise() -> None:
    version = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]
    assert container(render())["image"] == f"ghcr.io/batchrun/batchrun-operator:{version}"
    digest = "sha256:" + "a" * 64
    pinned = render(f'image={{"repository":"r/o","digest":"{digest}"}}')
    assert container(pinned)["image"] == f"r/o:{version}@{digest}"


def test_the_liveness_probe_asks_the_operators_endpoint() -> None:
    found = container(render())
    port = next(
        item["containerPort"] for item in found["ports"] if item["name"] == found["livenessProbe"]["httpGet"]["port"]
    )
    assert port == from_environ({"BATCHRUN_RUNNER_IMAGE": "x"}).liveness_port


def test_a_busy_machine_restarts_no_operator_that_is_only_late() -> None:
    probe = container(render())["livenessProbe"]
    assert probe["timeoutSeconds"] >= 20
    assert probe["periodSeconds"] * probe["failureThreshold"] >= 240
    assert container(render())["resources"]["requests"]["cpu"] == "200m"


def test_distributions_are_installed_as_generated() -> None:
    data = render()["ConfigMap", "sys/batchrun-distributions"]["data"]["distributions.yaml"]
    assert yaml.safe_load(data) == yaml.safe_load((CHART / "files" / "distributions.yaml").read_text())
    assert {name: entry["probabilities"] for name, entry in yaml.safe_load(data).items()} == DISTRIBUTIONS
    assert ("ConfigMap", "sys/batchrun-distributions") not in render("distributions.create=false")


def test_an_existing_service_account_can_be_used() -> None:
    documents = render('serviceAccount={"create":false,"name":"mine"}', "rbac.create=false")
    assert {kind for kind, _ in documents} == {"Deployment", "ConfigMap"}
    assert documents["Deployment", "sys/batchrun"]["spec"]["template"]["spec"]["serviceAccountName"] == "mine"


@pytest.mark.parametrize("release", ["x", "batchrun-two", "a" * 53])
def test_release_names_give_valid_names(release: str) -> None:
    for _, name in render(release=release):
        assert len(name.partition("/")[2]) <= 253
        assert len(name.partition("/")[2].removesuffix("-distributions")) <= 63


@pytest.mark.parametrize(
    "setting",
    [
        'runs.namespaces=["Not A Namespace"]',
        "operator.maxAttempts=0",
        'operator.logLevel="loud"',
        'image.digest="sha256:1"',
        'image.pullPolicy="Sometimes"',
        "replicas=2",
        'network.blockedRanges=["10.0.0.1"]',
        'runnerResources={"requests":{"gpu":1}}',
    ],
)
def test_wrong_values_are_refused(setting: str) -> None:
    assert "schema" in refused(setting)


def test_pods_of_runs_need_a_kubernetes_that_knows_pod_level_resources() -> None:
    old = helm("template", "batchrun", str(CHART), "--kube-version", "1.33.0")
    assert "kubeVersion" in old.stderr
