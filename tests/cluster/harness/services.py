"""Services of a test's own namespace."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from tests.cluster.harness.runs import Runs


def serve_by_name(runs: Runs, *more_addresses: str) -> tuple[str, int]:
    """Name and port under which pods reach the model server: a Service without an address of its own.

    Called again it changes what the name means: `more_addresses` stand beside the server's.
    """
    parts = urlsplit(runs.model.base_url)
    assert parts.hostname
    assert parts.port
    service: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "model"},
        "spec": {"clusterIP": "None", "ports": [{"name": "http", "port": parts.port}]},
    }
    addresses: dict[str, Any] = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "model", "labels": {"kubernetes.io/service-name": "model"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address]} for address in (parts.hostname, *more_addresses)],
        "ports": [{"name": "http", "port": parts.port}],
    }
    runs.kubectl.apply(service, addresses)
    return f"model.{runs.kubectl.namespace}.svc", parts.port
