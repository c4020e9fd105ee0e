"""The real cluster and S3 that `make cluster-install` has made, or the ones of KUBECONFIG and AWS_*."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError

from tests.cluster.harness.bucket import Bucket
from tests.cluster.harness.enforcement import is_enforced
from tests.cluster.harness.kubectl import Kubectl
from tests.cluster.harness.model import ModelServer
from tests.cluster.harness.node import Node
from tests.cluster.harness.runs import SANDBOX_IMAGE, SECRET, Runs
from tests.cluster.testbed.settings import Layout

ROOT = Path(__file__).resolve().parents[2]
BUCKET = "batchrun-tests"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.cluster)
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(300))  # half a minute on an idle machine; a busy one is no fault
        if item.path.name == "test_faults.py":
            item.add_marker(pytest.mark.chaos)


def _missing(what: str) -> None:
    message = f"{what}: run `make cluster-install`, or set KUBECONFIG and AWS_*"
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session")
def cluster() -> Kubectl:
    """kubectl in the namespace `default`."""
    kubeconfig = ROOT / ".cluster" / "kubeconfig"
    if not kubeconfig.is_file():
        kubeconfig = Path(os.environ.get("KUBECONFIG", ""))
    program = shutil.which("kubectl", path=f"{ROOT / '.cluster' / 'bin'}:{os.environ['PATH']}")
    if not kubeconfig.is_file() or program is None:
        _missing("there is no cluster")
    assert program
    return Kubectl(program, kubeconfig, "default")


@pytest.fixture(scope="session")
def store_environ() -> dict[str, str]:
    """AWS_* of the S3 server."""
    file = ROOT / ".cluster" / "s3.env"
    environ = dict(os.environ)
    if file.is_file():
        environ |= dict(line.split("=", 1) for line in file.read_text().splitlines() if "=" in line)
    if "AWS_ENDPOINT_URL" not in environ:
        _missing("there is no S3 server")
    return environ


@pytest.fixture(scope="session")
def bucket(store_environ: dict[str, str]) -> Bucket:
    """One bucket for all tests; each namespace is a folder of its own in it."""
    bucket = Bucket(BUCKET, store_environ)
    try:
        bucket.client.create_bucket(Bucket=BUCKET)
    except ClientError as error:
        if error.response["Error"]["Code"] not in {"BucketAlreadyOwnedByYou", "BucketAlreadyExists"}:
            raise
    return bucket


@pytest.fixture
def namespace(cluster: Kubectl, bucket: Bucket) -> Iterator[Kubectl]:
    """A namespace of this test alone, with the store's credentials in it."""
    name = f"t-{secrets.token_hex(4)}"
    cluster.run("create", "namespace", name)
    kubectl = cluster.within(name)
    kubectl.run(
        "create",
        "secret",
        "generic",
        SECRET,
        f"--from-literal=AWS_ACCESS_KEY_ID={bucket.access_key}",
        f"--from-literal=AWS_SECRET_ACCESS_KEY={bucket.secret_key}",
    )
    yield kubectl
    cluster.run("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="session")
def node_address(bucket: Bucket) -> str:
    """An address of this machine that pods reach: the one on which the S3 server listens."""
    return urlsplit(bucket.endpoint_url).hostname or ""


@pytest.fixture
def model(node_address: str) -> Iterator[ModelServer]:
    """A demo model of this test alone."""
    with ModelServer(node_address) as server:
        yield server


@pytest.fixture(scope="session")
def enforces_policies(cluster: Kubectl) -> bool:
    """Our own cluster does; another is tried."""
    return not Layout().given.is_file() or is_enforced(cluster, SANDBOX_IMAGE)


@pytest.fixture
def runs(namespace: Kubectl, bucket: Bucket, model: ModelServer, enforces_policies: bool) -> Runs:
    """Makes BatchRuns."""
    return Runs(namespace, bucket, model, enforces_policies)


@pytest.fixture
def node() -> Node:
    """The node, where the cluster is our own."""
    layout = Layout()
    why_not = Node.why_not(layout)
    if why_not and os.environ.get("CI") == "true":
        pytest.fail(why_not)
    if why_not:
        pytest.skip(why_not)
    return Node(layout)
