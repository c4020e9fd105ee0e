"""What kopf tells us. Handlers only wake a run's task; no daemon, timer or change handler, so no finalizer."""

from collections.abc import Mapping
from time import monotonic
from typing import Any

import kopf

from batchrun_api import names
from batchrun_api.spec.run import API_GROUP, API_VERSION, PLURAL
from batchrun_operator.reconciler import Reconciler

WATCH_TIMEOUT_SECONDS = 300
_CHILDREN = (("batch", "v1", "jobs"), ("", "v1", "pods"))


def register(registry: kopf.OperatorRegistry, reconciler: Reconciler) -> None:
    """Attach everything to a registry of our own."""

    @kopf.on.startup(registry=registry)
    async def configure_and_start(settings: kopf.OperatorSettings, **_: Any) -> None:
        configure(settings)
        reconciler.start()

    @kopf.on.cleanup(registry=registry)
    async def stop(**_: Any) -> None:
        await reconciler.stop()

    @kopf.on.login(registry=registry)
    def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)

    @kopf.on.probe(registry=registry, id="seconds_since_runs_were_listed")
    def listed(**_: Any) -> float:
        return round(monotonic() - reconciler.last_sweep_seconds, 1)

    @kopf.on.event(API_GROUP, API_VERSION, PLURAL, registry=registry)
    async def run_changed(meta: kopf.Meta, **_: Any) -> None:
        reconciler.wake((str(meta.namespace), str(meta.name)), str(meta.get("resourceVersion") or ""))

    for group, version, plural in _CHILDREN:

        @kopf.on.event(group, version, plural, labels={names.LABEL_RUN_UID: kopf.PRESENT}, registry=registry)
        async def child_changed(meta: kopf.Meta, **_: Any) -> None:
            name = _run_name(meta)
            if name:
                reconciler.wake((str(meta.namespace), name))


def _run_name(meta: Mapping[str, Any]) -> str:
    annotations = meta.get("annotations") or {}
    return str(annotations.get(names.ANNOTATION_RUN) or "")


def configure(settings: kopf.OperatorSettings) -> None:
    """kopf as a plain watcher: no peering, no events of its own, no scanning, children selected by the API server."""
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.watching.server_timeout = WATCH_TIMEOUT_SECONDS
    settings.watching.client_timeout = WATCH_TIMEOUT_SECONDS + 60
    settings.watching.connect_timeout = 10
    settings.networking.request_timeout = 60
    for group, version, plural in _CHILDREN:
        settings.watching.label_selectors[(group, version, plural)] = names.LABEL_RUN_UID
