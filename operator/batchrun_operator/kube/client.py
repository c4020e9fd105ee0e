"""Plain JSON over the official asyncio client.

`kubernetes.aio` and not the threaded client: a pass is a handful of small requests, hundreds of runs wait at once, and
a pool of threads would be one more thing to run out of (field report d10). Its connection handling, credentials and
token refresh are used; its typed models are not, since manifests and observations are plain JSON on both sides.
"""

from collections.abc import Mapping
from typing import Any

import aiohttp
import orjson
import yaml
from kubernetes.aio import client, config

from batchrun_api.spec.run import API_GROUP, API_VERSION, PLURAL
from batchrun_operator.kube.errors import KubeError, Unavailable, error_of

Json = dict[str, Any]

_RUNS = f"/apis/{API_GROUP}/{API_VERSION}"
_PATHS = {
    "batchruns": _RUNS,
    "jobs": "/apis/batch/v1",
    "pods": "/api/v1",
    "configmaps": "/api/v1",
    "secrets": "/api/v1",  # for users of the plugin; the operator may not read any
    "events": "/api/v1",
    "services": "/api/v1",
    "endpointslices": "/apis/discovery.k8s.io/v1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
}
_TIMEOUT_SECONDS = 60
_CONNECTIONS = 32
_JSON = "application/json"
_JSON_PATCH = "application/json-patch+json"
_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"


class KubeApi:
    """The few calls that the operator makes. Every one raises KubeError."""

    def __init__(self, api_client: client.ApiClient) -> None:
        self._client = api_client

    @classmethod
    async def connect(cls) -> "KubeApi":
        """With the pod's service account, or with a kubeconfig outside a cluster."""
        configuration = client.Configuration()
        try:
            config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        except config.ConfigException:
            await config.load_kube_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        configuration.connection_pool_maxsize = _CONNECTIONS
        return cls(client.ApiClient(configuration))

    @classmethod
    async def connect_as_user(cls, kubeconfig: str | None, context: str | None) -> tuple["KubeApi", str]:
        """As kubectl does, and the namespace of the context. Raises Unavailable where it cannot be used."""
        configuration = client.Configuration()
        try:
            contexts, current = config.list_kube_config_contexts(kubeconfig)  # type: ignore[no-untyped-call]
            found = next((item for item in contexts if item["name"] == context), None) if context else current
            if found is None:
                names = ", ".join(item["name"] for item in contexts)
                raise Unavailable(0, "BadKubeconfig", f"no context is named {context}; there are: {names}")
            await config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=kubeconfig, context=context, client_configuration=configuration
            )
        except (config.ConfigException, yaml.YAMLError, OSError, TypeError, KeyError, ValueError) as error:
            raise Unavailable(0, "BadKubeconfig", str(error) or type(error).__name__) from error
        return cls(client.ApiClient(configuration)), str(found["context"].get("namespace") or "default")

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()  # type: ignore[no-untyped-call]

    async def get(self, kind: str, namespace: str, name: str) -> Json:
        """One object."""
        return await self._json("GET", _path(kind, namespace, name))

    async def find(self, kind: str, namespace: str, *, labels: str = "", fields: str = "") -> list[Json]:
        """All objects of a kind, by selectors. Namespace "": all. Never an older state than this moment's."""
        query = [("labelSelector", labels), ("fieldSelector", fields)]
        answer = await self._json("GET", _path(kind, namespace), [pair for pair in query if pair[1]])
        items: list[Json] = answer["items"]
        return items

    async def create(self, kind: str, manifest: Json) -> Json:
        """Make an object."""
        return await self._json("POST", _path(kind, manifest["metadata"]["namespace"]), body=manifest)

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> None:
        """Delete this very object; what it owns goes in the background."""
        options = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
        await self._json("DELETE", _path(kind, namespace, name), body=options)

    async def patch_pod(self, namespace: str, name: str, patch: Json) -> Json:
        """Strategic merge patch: containers are merged by their names."""
        return await self._json("PATCH", _path("pods", namespace, name), body=patch, content_type=_STRATEGIC)

    async def patch_run(self, namespace: str, name: str, patch: Json) -> Json:
        """JSON merge patch of a BatchRun."""
        return await self._json("PATCH", _path("batchruns", namespace, name), body=patch, content_type=_MERGE_PATCH)

    async def replace_spec(self, kind: str, namespace: str, name: str, uid: str, spec: Json) -> Json:
        """Write the whole `spec`; refused where another object has come under that name."""
        patch: list[Json] = [
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "replace", "path": "/spec", "value": spec},
        ]
        return await self._json("PATCH", _path(kind, namespace, name), body=patch, content_type=_JSON_PATCH)

    async def replace_run_status(self, run: Json) -> Json:
        """Write `status`, if the object is still at its resourceVersion."""
        meta = run["metadata"]
        path = _path("batchruns", meta["namespace"], meta["name"]) + "/status"
        return await self._json("PUT", path, body=run)

    async def read_log(self, namespace: str, pod: str, container: str, *, tail_lines: int, limit_bytes: int) -> str:
        """The last lines of a container's log; what is no UTF-8 is replaced."""
        query = [("container", container), ("tailLines", str(tail_lines)), ("limitBytes", str(limit_bytes))]
        raw = await self._call("GET", _path("pods", namespace, pod) + "/log", query, None, _JSON)
        return raw.decode("utf-8", "replace")

    async def _json(
        self,
        method: str,
        path: str,
        query: list[tuple[str, str]] | None = None,
        body: Json | list[Json] | None = None,
        content_type: str = _JSON,
    ) -> Json:
        raw = await self._call(method, path, query or [], body, content_type)
        answer: Json = orjson.loads(raw)
        return answer

    async def _call(
        self, method: str, path: str, query: list[tuple[str, str]], body: Json | list[Json] | None, content_type: str
    ) -> bytes:
        headers = {"Content-Type": content_type, "Accept": f"{_JSON}, */*"}
        try:
            _, url, headers, _, _ = await self._client.param_serialize(
                method, path, query_params=query, header_params=headers, auth_settings=["BearerToken"]
            )
            response = await self._client.call_api(
                method, url, headers, body, _request_timeout=aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
            )
            raw: bytes = await response.read()  # type: ignore[no-untyped-call]
        except (aiohttp.ClientError, TimeoutError, OSError, client.ApiException) as error:
            raise Unavailable(0, type(error).__name__, str(error)) from error
        if 200 <= response.status < 300:
            return raw
        raise _failure(response.status, raw)


def _failure(status: int, raw: bytes) -> KubeError:
    try:
        body = orjson.loads(raw)
    except ValueError:
        body = None
    return error_of(status, body if isinstance(body, Mapping) else {"message": raw[:500].decode("utf-8", "replace")})


def _path(kind: str, namespace: str, name: str = "") -> str:
    where = f"/namespaces/{namespace}" if namespace else ""
    return f"{_PATHS[kind]}{where}/{PLURAL if kind == 'batchruns' else kind}" + (f"/{name}" if name else "")
