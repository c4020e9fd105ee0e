"""The operator's process: `python -m batchrun_operator`."""

import asyncio
import os
import sys

import kopf
import structlog

from batchrun_operator.handlers import register
from batchrun_operator.kube import KubeApi, KubeError, Unavailable
from batchrun_operator.logs import configure_logs
from batchrun_operator.reconciler import Reconciler
from batchrun_operator.settings import Settings, SettingsInvalid, from_environ

EXIT_USAGE = 2
EXIT_UNAVAILABLE = 1
START_TRIES = 20
IDENTITY = "batchrun-operator"

log = structlog.get_logger()


async def serve(settings: Settings) -> int:
    """Run until SIGTERM. Gives the exit code."""
    api = await KubeApi.connect()
    try:
        await _wait_for_api(api, settings)
        registry = kopf.OperatorRegistry()
        register(registry, Reconciler(api, settings))
        await kopf.operator(
            registry=registry,
            standalone=True,
            # kopf's own guess looks up the user's name, which an arbitrary uid need not have.
            identity=IDENTITY,  # type: ignore[arg-type]
            clusterwide=not settings.namespaces,
            namespaces=settings.namespaces,
            liveness_endpoint=f"http://0.0.0.0:{settings.liveness_port}/healthz" if settings.liveness_port else None,
        )
    except KubeError as error:
        log.error("BatchRuns cannot be listed: is the CRD installed, and may this account read it?", error=str(error))
        return EXIT_UNAVAILABLE
    finally:
        await api.close()
    return 0


async def _wait_for_api(api: KubeApi, settings: Settings) -> None:
    """kopf would watch nothing for ever where the CRD is missing; a restart finds it once it is there."""
    for tries_left in reversed(range(START_TRIES)):
        try:
            for namespace in settings.namespaces or ("",):
                await api.find("batchruns", namespace)
        except Unavailable:
            if not tries_left:
                raise
            await asyncio.sleep(1)
        else:
            return


def main() -> None:
    """Entry point."""
    try:
        settings = from_environ(os.environ)
    except SettingsInvalid as error:
        print(f"batchrun-operator: {error}", file=sys.stderr)  # noqa: T201 - logs are not configured yet
        sys.exit(EXIT_USAGE)
    configure_logs(settings.log_level, settings.log_format)
    sys.exit(asyncio.run(serve(settings)))
