"""Mutating webhooks as clouds and policies run them: each changes every new pod of one namespace."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

from tests.cluster.harness.kubectl import Kubectl, wait_for

TOKEN_FOLDER = "/var/run/secrets/eks.amazonaws.com/serviceaccount"
SKIP_ANNOTATION = "eks.amazonaws.com/skip-containers"
VARIABLES = {
    "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/team",
    "AWS_WEB_IDENTITY_TOKEN_FILE": f"{TOKEN_FOLDER}/token",
    "AWS_STS_REGIONAL_ENDPOINTS": "regional",
}
_VOLUME = "aws-iam-token"
_SOURCE = {"serviceAccountToken": {"audience": "sts.amazonaws.com", "expirationSeconds": 86400, "path": "token"}}


Change = Callable[[dict[str, Any]], dict[str, Any]]
"""From a pod to the spec that it gets."""


def inject(pod: dict[str, Any], *, honours_skips: bool) -> dict[str, Any]:
    """The pod's spec with a projected token and variables in every container that may not be skipped."""
    annotations = pod["metadata"].get("annotations") or {}
    skipped = annotations.get(SKIP_ANNOTATION, "").split(",") if honours_skips else []
    spec: dict[str, Any] = json.loads(json.dumps(pod["spec"]))
    spec.setdefault("volumes", []).append({"name": _VOLUME, "projected": {"sources": [_SOURCE]}})
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        if container["name"] not in skipped:
            variables = [{"name": name, "value": value} for name, value in VARIABLES.items()]
            container["env"] = [*(container.get("env") or []), *variables]
            mount = {"name": _VOLUME, "mountPath": TOKEN_FOLDER, "readOnly": True}
            container["volumeMounts"] = [*(container.get("volumeMounts") or []), mount]
    return spec


def make_roots_read_only(pod: dict[str, Any]) -> dict[str, Any]:
    """The pod's spec with a read-only root file system in every container."""
    spec: dict[str, Any] = json.loads(json.dumps(pod["spec"]))
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        container["securityContext"] = (container.get("securityContext") or {}) | {"readOnlyRootFilesystem": True}
    return spec


class _Handler(BaseHTTPRequestHandler):
    change: ClassVar[Change]

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["request"]
        spec = type(self).change(request["object"])
        patch = json.dumps([{"op": "replace", "path": "/spec", "value": spec}]).encode()
        response = {
            "uid": request["uid"],
            "allowed": True,
            "patchType": "JSONPatch",
            "patch": base64.b64encode(patch).decode(),
        }
        body = json.dumps(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing: the API server's requests are no news."""


@contextmanager
def identity_webhook(kubectl: Kubectl, address: str, folder: Path, *, honours_skips: bool) -> Iterator[None]:
    """Containers get an identity. `honours_skips`: those that the pod's annotation lists are left out."""
    change = partial(inject, honours_skips=honours_skips)
    with mutating_webhook(kubectl, address, folder, change, mark=_VOLUME):
        yield


@contextmanager
def mutating_webhook(kubectl: Kubectl, address: str, folder: Path, change: Change, *, mark: str) -> Iterator[None]:
    """Every pod made in kubectl's namespace is changed while the context is open. `address`: the API server reaches it.

    `folder` gets the certificate. `mark` is a word of each changed pod.
    """
    _make_certificate(folder, address)
    handler = type("Handler", (_Handler,), {"change": staticmethod(change)})
    server = ThreadingHTTPServer((address, 0), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    name = f"batchrun-test-{kubectl.namespace}"
    try:
        url = f"https://{address}:{server.server_address[1]}/mutate"
        kubectl.apply(_configuration(name, kubectl.namespace, url, (folder / "ca.crt").read_bytes()))
        wait_for("the API server calls the webhook", lambda: _is_called(kubectl, mark) or None, 30)
        yield
    finally:
        kubectl.run("delete", "mutatingwebhookconfiguration", name, "--ignore-not-found")
        server.shutdown()
        server.server_close()
        thread.join(10)


def _configuration(name: str, namespace: str, url: str, ca: bytes) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": "pod-identity.batchrun.dev",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": 10,
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
                "clientConfig": {"url": url, "caBundle": base64.b64encode(ca).decode()},
            }
        ],
    }


def _is_called(kubectl: Kubectl, mark: str) -> bool:
    """A pod that is only tried comes back changed."""
    return mark in kubectl.run("run", "probe", "--image=none", "--dry-run=server", "-o", "json", check=False)


def _make_certificate(folder: Path, address: str) -> None:
    """A CA of our own and a server certificate for the address."""
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"]
    _openssl(folder, "req", "-x509", *key, "-subj", "/CN=batchrun test CA", "-keyout", "ca.key", "-out", "ca.crt")
    signed = ["-CA", "ca.crt", "-CAkey", "ca.key", "-subj", "/CN=webhook", "-addext", f"subjectAltName=IP:{address}"]
    leaf = ["-addext", "basicConstraints=critical,CA:FALSE", "-addext", "extendedKeyUsage=serverAuth"]
    _openssl(folder, "req", "-x509", *key, *signed, *leaf, "-keyout", "server.key", "-out", "server.crt")


def _openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)
