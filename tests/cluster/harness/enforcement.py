"""Whether the cluster at hand enforces NetworkPolicies: tried with a pod that a policy shuts in."""

from __future__ import annotations

import secrets
from typing import Any

from tests.cluster.harness.kubectl import Kubectl, wait_for

_TRY = """
import os, socket, sys, time
address = os.environ["KUBERNETES_SERVICE_HOST"], int(os.environ["KUBERNETES_SERVICE_PORT"])
silent, end = 0, time.monotonic() + 30
while time.monotonic() < end:
    try:
        socket.create_connection(address, 2).close()
        silent = 0
        time.sleep(0.2)
    except TimeoutError:
        silent += 1
        if silent == 2:
            sys.exit("enforced")
    except OSError:
        sys.exit("enforced")
"""
NAME = "shut-in"
_POLICY: dict[str, Any] = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "NetworkPolicy",
    "metadata": {"name": NAME},
    "spec": {"podSelector": {}, "policyTypes": ["Egress"]},
}


def _pod(image: str) -> dict[str, Any]:
    container = {
        "name": NAME,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", _TRY],
    }
    spec = {"restartPolicy": "Never", "automountServiceAccountToken": False, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": NAME}, "spec": spec}


def is_enforced(cluster: Kubectl, image: str) -> bool:
    """`image`: one with Python."""
    namespace = f"t-{secrets.token_hex(4)}"
    cluster.run("create", "namespace", namespace)
    kubectl = cluster.within(namespace)
    try:
        kubectl.apply(_POLICY, _pod(image))

        def exit_code() -> list[int] | None:
            statuses = ((kubectl.get("pods", NAME) or {}).get("status") or {}).get("containerStatuses") or ()
            return [status["state"]["terminated"]["exitCode"] for status in statuses if "terminated" in status["state"]]

        return wait_for("the pod that is shut in has ended", exit_code, 120) == [1]
    finally:
        cluster.run("delete", "namespace", namespace, "--wait=false")
