"""Installing batchrun for development: the chart by the real helm, and a namespace with all that the example needs.

Works from the files in `.cluster/` alone, so it is the same for our own cluster and for a given one.
"""

from __future__ import annotations

import ipaddress
import json
import shlex
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from batchrun_api.image_names import whole_name
from tests.cluster.testbed import given, images, local_images
from tests.cluster.testbed.errors import CommandError, HostError, TestbedError
from tests.cluster.testbed.network import node_ip
from tests.cluster.testbed.settings import S3_PORT, Layout
from tests.cluster.testbed.shell import Word, locked, run, say

RELEASE = "batchrun"
SYSTEM_NAMESPACE = "batchrun-system"
DEV_NAMESPACE = "batchrun-dev"
BUCKET = "batchrun"
_LABELS = {"app.kubernetes.io/managed-by": "batchrun-testbed"}
_PENDING_RELEASES = "owner=helm,status in (pending-install,pending-upgrade,pending-rollback)"


def install(layout: Layout) -> None:
    """Install or upgrade everything; the operator is ready at the end. HostError where `up` was not run."""
    if not layout.kubeconfig.is_file():
        raise HostError("no cluster is up here: run `python -m tests.cluster.testbed up`")
    with locked(layout.public / ".lock-install"):
        store = _store_environment(layout)
        _kubectl(layout, "apply", "-f", "-", stdin=json.dumps(_dev_objects(store)))
        _ensure_bucket(store)
        say(f"namespace {DEV_NAMESPACE} is ready")
        _install_chart(layout)


def _kubectl(layout: Layout, *words: Word, stdin: str | None = None) -> str:
    return run([layout.kubectl, "--kubeconfig", layout.kubeconfig, *words], stdin=stdin)


def image_values(name: str) -> dict[str, str]:
    """`team/image:1@sha256:2` as the chart wants it."""
    tagged, _, digest = name.partition("@")
    folder, slash, last = tagged.rpartition("/")
    last, _, tag = last.partition(":")
    return {"repository": folder + slash + last, "tag": tag or "latest", "digest": digest, "pullPolicy": "IfNotPresent"}


def _chart_values(layout: Layout) -> dict[str, Any]:
    """The annotation makes a new pod when another image came under the same name."""
    if given.is_given(layout):
        names, mark = given.image_names(), given.image_mark()
    else:
        names = local_images.PROJECT_IMAGES
        built = images.read_built(layout, whole_name(names["operator"]))
        if built is None:
            raise HostError("the images are not built: run `python -m tests.cluster.testbed project-images`")
        mark = built.image_id
    return {
        "image": image_values(names["operator"]),
        "runnerImage": image_values(names["runner"]),
        "browserImage": image_values(names["browser"]),
        "runs": {"namespaces": []},
        "podAnnotations": {"batchrun.dev/image-id": mark},
        "network": {"blockedRanges": [] if given.is_given(layout) else [f"{node_ip()}/32"]},
    }


def _install_chart(layout: Layout) -> None:
    chart = layout.repo / "charts" / "batchrun"
    # helm makes CRDs and never changes them; and it refuses for ever after one that was killed.
    _kubectl(layout, "apply", "--server-side", "--force-conflicts", "-f", chart / "crds")
    _kubectl(layout, "delete", "secret", "-n", SYSTEM_NAMESPACE, "-l", _PENDING_RELEASES)
    helm: list[Word] = [layout.public / "bin" / "helm", "--kubeconfig", layout.kubeconfig, "-n", SYSTEM_NAMESPACE]
    helm += ["upgrade", "--install", RELEASE, chart, "--create-namespace", "--values", "-"]
    helm += ["--wait", "--timeout", "3m"]
    try:
        run(helm, stdin=json.dumps(_chart_values(layout)))
    except CommandError as error:
        raise TestbedError(f"{error}\n{_what_is_wrong(layout)}") from error
    say("the operator is ready")


def _what_is_wrong(layout: Layout) -> str:
    """The operator's pods and the end of their logs."""
    selector = ["-n", SYSTEM_NAMESPACE, "-l", f"app.kubernetes.io/instance={RELEASE}"]
    told = []
    for words in (["get", "pods"], ["logs", "--tail=20"], ["get", "events", "-n", SYSTEM_NAMESPACE]):
        try:
            told.append(_kubectl(layout, *words, *(selector if "events" not in words else [])))
        except CommandError as error:
            told.append(error.output)
    return "\n".join(told)


def _store_environment(layout: Layout) -> dict[str, str]:
    """AWS_* out of `.cluster/s3.env`."""
    lines = shlex.split((layout.public / "s3.env").read_text())
    return dict(line.split("=", 1) for line in lines)


def _dev_objects(store: Mapping[str, str]) -> dict[str, Any]:
    """Namespace, credentials and, where it can be, a Service `s3`: the same address on every machine."""

    def named(api_version: str, kind: str, name: str, **content: object) -> dict[str, Any]:
        namespace = {} if kind == "Namespace" else {"namespace": DEV_NAMESPACE}
        labels = {**_LABELS, **({"kubernetes.io/service-name": name} if kind == "EndpointSlice" else {})}
        metadata = {"name": name, "labels": labels, **namespace}
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}

    keys = {name: store[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")}
    items = [
        named("v1", "Namespace", DEV_NAMESPACE),
        named("v1", "Secret", "s3-credentials", stringData=keys),
    ]
    address = pod_address(store["AWS_ENDPOINT_URL"])
    if address is not None:
        host, port = address
        items += [
            named("v1", "Service", "s3", spec={"ports": [{"name": "s3", "port": S3_PORT}]}),
            named(
                "discovery.k8s.io/v1",
                "EndpointSlice",
                "s3",
                addressType="IPv4",
                endpoints=[{"addresses": [host]}],
                ports=[{"name": "s3", "port": port}],
            ),
        ]
    return {"apiVersion": "v1", "kind": "List", "items": items}


def pod_address(endpoint_url: str) -> tuple[str, int] | None:
    """IPv4 address and port for a Service, None where it would not do: TLS wants the real name, loopback is the pod."""
    parts = urlsplit(endpoint_url)
    try:
        host = socket.gethostbyname(parts.hostname or "")
    except OSError as error:
        raise HostError(f"AWS_ENDPOINT_URL={endpoint_url}: {error}") from error
    if parts.scheme != "http" or ipaddress.ip_address(host).is_loopback:
        say(f"no Service `s3`: pods cannot reach {endpoint_url} by another name; change endpointURL in the example")
        return None
    return host, parts.port or 80


def _ensure_bucket(store: Mapping[str, str]) -> None:
    import boto3  # of the project's environment, which nothing else here needs
    from botocore.config import Config
    from botocore.exceptions import ClientError

    client = boto3.client(
        "s3",
        endpoint_url=store["AWS_ENDPOINT_URL"],
        region_name=store["AWS_REGION"],
        aws_access_key_id=store["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=store["AWS_SECRET_ACCESS_KEY"],
        config=Config(proxies={}, s3={"addressing_style": "path"}),
    )
    try:
        client.create_bucket(Bucket=BUCKET)
    except ClientError as error:
        if error.response["Error"]["Code"] not in {"BucketAlreadyOwnedByYou", "BucketAlreadyExists"}:
            raise TestbedError(f"bucket {BUCKET}: {error}") from error
