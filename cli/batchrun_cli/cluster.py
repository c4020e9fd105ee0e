"""One run as the API server tells of it, and the two changes that the plugin makes to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from batchrun_api import names
from batchrun_api.spec.run import BatchRunSpec
from batchrun_api.status import BatchRunStatus, Condition
from batchrun_cli.errors import CommandError, in_words
from batchrun_operator.kube import KubeApi, KubeError

LOG_LINES = 10_000
_LOG_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Target:
    """Where kubectl would look. None: the kubeconfig's own choice."""

    namespace: str | None = None
    context: str | None = None
    kubeconfig: str | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """A run at one moment."""

    uid: str
    spec: BatchRunSpec
    status: BatchRunStatus
    name: str

    def condition(self, kind: str) -> Condition | None:
        """A condition that is true."""
        return next((item for item in self.status.conditions if item.type == kind and item.status == "True"), None)

    @property
    def run_name(self) -> str:
        """Name of its output folder."""
        return self.spec.run_name or self.name


class RunAccess:
    """One run of one namespace. Every method raises CommandError."""

    def __init__(self, api: KubeApi, namespace: str, name: str) -> None:
        self._api = api
        self.namespace = namespace
        self.name = name

    @property
    def what(self) -> str:
        """The run in words."""
        return f"BatchRun {self.name} in the namespace {self.namespace}"

    async def read(self) -> Seen:
        """The run now."""
        try:
            raw = await self._api.get("batchruns", self.namespace, self.name)
        except KubeError as error:
            raise in_words(error, self.what) from error
        try:
            spec = BatchRunSpec.model_validate(raw.get("spec") or {})
            status = BatchRunStatus.model_validate(raw.get("status") or {})
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise CommandError(f"{self.what} is of another version of batchrun: {where}: {first['msg']}") from error
        return Seen(raw["metadata"]["uid"], spec, status, self.name)

    async def change(self, patch: dict[str, Any]) -> None:
        """Merge a patch into it."""
        try:
            await self._api.patch_run(self.namespace, self.name, patch)
        except KubeError as error:
            raise in_words(error, self.what) from error

    async def batch_pods(self, uid: str) -> list[dict[str, Any]]:
        """Its batch pods that are still there."""
        labels = f"{names.LABEL_RUN_UID}={uid},{names.LABEL_ROLE}=batch"
        try:
            return await self._api.find("pods", self.namespace, labels=labels)
        except KubeError as error:
            raise in_words(error, f"pods of {self.what}") from error

    async def runner_log(self, pod: str) -> str | None:
        """The end of a runner's log; None where the pod is gone or has not started."""
        try:
            return await self._api.read_log(
                self.namespace, pod, names.RUNNER_CONTAINER, tail_lines=LOG_LINES, limit_bytes=_LOG_BYTES
            )
        except KubeError as error:
            if error.status in (400, 404):
                return None
            raise in_words(error, f"log of {pod}") from error

    async def secret(self, name: str) -> dict[str, str]:
        """Values of a Secret, still in base64."""
        try:
            found = await self._api.get("secrets", self.namespace, name)
        except KubeError as error:
            problem = in_words(error, f"Secret {name} in the namespace {self.namespace}")
            raise CommandError(f"{problem}; or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY") from error
        return dict(found.get("data") or {})


@asynccontextmanager
async def opened(target: Target, name: str) -> AsyncIterator[RunAccess]:
    """Access to a run. Raises CommandError."""
    try:
        api, namespace = await KubeApi.connect_as_user(target.kubeconfig, target.context)
    except KubeError as error:
        raise in_words(error, "the kubeconfig") from error
    try:
        yield RunAccess(api, target.namespace or namespace, name)
    finally:
        await api.close()
