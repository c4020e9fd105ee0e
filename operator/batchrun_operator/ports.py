"""What gathering and applying need of the Kubernetes API. The real one is `kube.KubeApi`; tests have a scripted one."""

from typing import Any, Protocol

Json = dict[str, Any]


class Api(Protocol):
    """Every call raises `kube.KubeError`."""

    async def get(self, kind: str, namespace: str, name: str) -> Json:
        """One object."""

    async def find(self, kind: str, namespace: str, *, labels: str = "", fields: str = "") -> list[Json]:
        """All objects of a kind, by selectors."""

    async def create(self, kind: str, manifest: Json) -> Json:
        """Make an object."""

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> None:
        """Delete this very object."""

    async def patch_pod(self, namespace: str, name: str, patch: Json) -> Json:
        """Strategic merge patch."""

    async def replace_spec(self, kind: str, namespace: str, name: str, uid: str, spec: Json) -> Json:
        """Write the whole `spec` of this very object."""

    async def replace_run_status(self, run: Json) -> Json:
        """Write `status`."""

    async def read_log(self, namespace: str, pod: str, container: str, *, tail_lines: int, limit_bytes: int) -> str:
        """The last lines of a container's log."""
