"""kubectl as a user has it, objects read for tests, and waiting on conditions."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException
from kubernetes.config import new_client_from_config
from urllib3.exceptions import HTTPError

T = TypeVar("T")

_GROUPS = {
    "batchruns": "apis/batchrun.dev/v1alpha1",
    "jobs": "apis/batch/v1",
    "deployments": "apis/apps/v1",
    "pods": "api/v1",
    "configmaps": "api/v1",
    "events": "api/v1",
}


def wait_for(
    what: str, condition: Callable[[], T | None], timeout_seconds: float = 60, *, poll_seconds: float = 0.2
) -> T:
    """The first true value of `condition`. Fails the test with `what` and the last value after the timeout."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_seconds:g} s: {what} (last: {value!r})")
        time.sleep(poll_seconds)


_TIMEOUT_SECONDS = 60


class Kubectl:
    """One namespace's view of the cluster.

    What tests ask again and again goes over one connection: polling by programs took half of the processors.
    """

    def __init__(self, program: str, kubeconfig: Path, namespace: str) -> None:
        self.namespace = namespace
        self._base = [program, f"--kubeconfig={kubeconfig}", f"--namespace={namespace}"]
        self._client: ApiClient = new_client_from_config(str(kubeconfig))  # type: ignore[no-untyped-call]

    def within(self, namespace: str) -> Kubectl:
        """The same cluster, another namespace."""
        other = object.__new__(Kubectl)
        other.namespace = namespace
        other._base = [*self._base[:2], f"--namespace={namespace}"]
        other._client = self._client
        return other

    def run(self, *arguments: str, stdin: str | None = None, check: bool = True, timeout: float = 60) -> str:
        """stdout of a call. A call that fails fails the test with kubectl's words."""
        done = subprocess.run(
            [*self._base, *arguments], input=stdin, capture_output=True, text=True, timeout=timeout, check=False
        )
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout if done.returncode == 0 else done.stdout + done.stderr

    def popen(self, *arguments: str) -> subprocess.Popen[str]:
        """A call that goes on, such as a watch. The test ends it."""
        return subprocess.Popen(
            [*self._base, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
        )

    def apply(self, *documents: dict[str, Any]) -> None:
        """`kubectl apply -f -`."""
        self.run("apply", "-f", "-", stdin="\n---\n".join(json.dumps(document) for document in documents))

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """One object of a kind (its plural), or None where there is none."""
        return self._read(f"{self._path(kind)}/{name}")

    def list(self, kinds: str, selector: str = "") -> list[dict[str, Any]]:
        """Objects of some kinds (plurals with commas between), by label selector."""
        found: list[dict[str, Any]] = []
        for kind in kinds.split(","):
            document = self._read(self._path(kind), labelSelector=selector)
            assert document is not None, f"the server knows no {kind}"
            found += document["items"] or []
        return found

    def _path(self, kind: str) -> str:
        return f"/{_GROUPS[kind]}/namespaces/{self.namespace}/{kind}"

    def _read(self, path: str, **query: str) -> dict[str, Any] | None:
        """The document, or None for a 404. Anything else fails the test with the server's words."""
        request = self._client.param_serialize(
            "GET",
            path,
            query_params=list(query.items()),
            header_params={"Accept": "application/json"},
            auth_settings=["BearerToken"],
        )
        try:
            answer = self._client.call_api(*request, _request_timeout=_TIMEOUT_SECONDS)
            body: bytes = answer.read()  # type: ignore[no-untyped-call]
        except (ApiException, HTTPError) as error:
            raise AssertionError(f"GET {path}: {error}") from error
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        if answer.status != HTTPStatus.OK:
            raise AssertionError(f"GET {path}: {body.decode(errors='replace')}")
        return dict(json.loads(body))
