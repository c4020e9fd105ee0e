"""Another cluster than our own: the one of KUBECONFIG, with the kubectl and helm of this machine.

`up` leaves the same files in `.cluster/` as for our own, so that all that comes after need not know the difference.
"""

from __future__ import annotations

import os
import shlex
import shutil
import time
from pathlib import Path

from tests.cluster.testbed import cluster, local_images, s3
from tests.cluster.testbed.binaries import FAMILIES, ensure_binaries
from tests.cluster.testbed.context import Context
from tests.cluster.testbed.errors import CommandError, HostError
from tests.cluster.testbed.network import node_ip
from tests.cluster.testbed.settings import S3_REGION, Layout
from tests.cluster.testbed.shell import SEARCH_PATH, Word, run, say

IMAGE_VARIABLES = {
    "operator": "BATCHRUN_OPERATOR_IMAGE",
    "runner": "BATCHRUN_RUNNER_IMAGE",
    "browser": "BATCHRUN_BROWSER_IMAGE",
}
"""Names of images that the given cluster can pull, instead of `batchrun-*:dev`."""

_HOW_TO_LOAD = """\
The cluster of KUBECONFIG needs these images on its nodes: {missing}. Build and load them there, for kind by

  docker build -f Dockerfile.operator -t batchrun-operator:dev .
  docker build -f Dockerfile.runner -t batchrun-runner:dev .
  docker build -f Dockerfile.runner --target browser -t batchrun-browser:dev .
  docker build --build-arg PYTHON_IMAGE=python:3.13-slim -t batchrun-test-python:dev {sandbox_images}/python
  kind load docker-image batchrun-operator:dev batchrun-runner:dev batchrun-browser:dev batchrun-test-python:dev

or push them and name them by {variables}. The tests with other sandbox images want those of the other folders
of {sandbox_images} as well, as batchrun-test-FOLDER:dev."""


def is_given(layout: Layout) -> bool:
    """True: KUBECONFIG names another cluster than ours, or the copy of one that `up` made."""
    value = os.environ.get("KUBECONFIG", "")
    if value and Path(value).resolve() == layout.kubeconfig.resolve():
        return layout.given.is_file()
    return bool(value)


def _tool(name: str) -> Path:
    found = shutil.which(name, path=SEARCH_PATH)
    if found is None:
        raise HostError(f"{name} is needed to use the cluster of KUBECONFIG and is not on the PATH")
    return Path(found).resolve()


def _s3_environment(layout: Layout) -> str:
    """AWS_* as given by the environment; else a server on this machine's address, which the pods must reach."""
    names = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    values = {name: os.environ.get(name, "") for name in names}
    ours = layout.s3.is_dir() and values["AWS_ENDPOINT_URL"] == s3.endpoint_at(node_ip())
    if all(values.values()) and not ours:
        values["AWS_REGION"] = os.environ.get("AWS_REGION", S3_REGION)
        return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())
    if os.geteuid() != 0:
        raise HostError(f"set {', '.join(names)}: without them an S3 server is started here, and that needs root")
    programs = ensure_binaries(layout, [family for family in FAMILIES if family.name == "versitygw"])
    context = Context(layout, programs, node_ip(), serialize_image_pulls=False)
    cluster.ensure_s3(context)
    return s3.environment_text(context)


def up(layout: Layout) -> None:
    """Publish the given cluster; HostError when it does not answer."""
    tools = {name: _tool(name) for name in ("kubectl", "helm")}
    try:
        kubeconfig = run([tools["kubectl"], "config", "view", "--raw", "--minify", "--flatten"])
        run([tools["kubectl"], "get", "--raw", "/readyz", "--request-timeout=20s"])
    except CommandError as error:
        raise HostError(f"the cluster of KUBECONFIG cannot be used: {error}") from error
    cluster.publish(layout, kubeconfig, _s3_environment(layout), tools)
    layout.given.write_text("The kubeconfig beside is a copy of one that was given by KUBECONFIG.\n")
    say("using the cluster of KUBECONFIG")


def image_names() -> dict[str, str]:
    """`operator`, `runner` and `browser` → image."""
    return {name: os.environ.get(IMAGE_VARIABLES[name]) or tag for name, tag in local_images.PROJECT_IMAGES.items()}


def image_mark() -> str:
    """What changes when the operator's image may have changed: nobody can tell, so always."""
    return f"unknown-{time.time_ns()}"


def check_images(layout: Layout) -> None:
    """HostError that says how to load what no node lists. Images named by IMAGE_VARIABLES are not looked for."""
    names = "{range .items[*].status.images[*].names[*]}{@}{'\\n'}{end}"
    kubectl: list[Word] = [layout.kubectl, "--kubeconfig", layout.kubeconfig]
    listed = {
        name.removeprefix("docker.io/library/").removeprefix("localhost/")
        for name in run([*kubectl, "get", "nodes", "-o", f"jsonpath={names}"]).split()
    }
    wanted = [tag for name, tag in local_images.PROJECT_IMAGES.items() if IMAGE_VARIABLES[name] not in os.environ]
    missing = [tag for tag in wanted if tag not in listed]
    if missing:
        variables = ", ".join(IMAGE_VARIABLES.values())
        sandbox_images = local_images.SANDBOX_IMAGES_DIR.relative_to(layout.repo)
        raise HostError(
            _HOW_TO_LOAD.format(missing=", ".join(missing), variables=variables, sandbox_images=sandbox_images)
        )
    say("nothing is built for the cluster of KUBECONFIG: load the images again after a change")
