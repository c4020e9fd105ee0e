"""The client against a real HTTP server: paths, bodies, and what each answer becomes."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio import client

from batchrun_operator.kube import AlreadyExists, Conflict, KubeApi, KubeError, NotFound, Refused, Unavailable


class Server:
    """Answers what it was told, and keeps what it was asked."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, str, Any]] = []
        self.answer: tuple[int, Any] = (200, {})

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.text()
        asked = json.loads(body) if body else None
        self.requests.append((request.method, request.path_qs, request.headers.get("Content-Type", ""), asked))
        status, answer = self.answer
        text = answer if isinstance(answer, (str, bytes)) else json.dumps(answer)
        return web.Response(status=status, body=text)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def api(server: Server) -> AsyncIterator[KubeApi]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.handle)
    async with TestServer(app) as running:
        configuration = client.Configuration()
        configuration.host = str(running.make_url("")).rstrip("/")
        made = KubeApi(client.ApiClient(configuration))
        yield made
        await made.close()


async def test_objects_are_read_and_listed(api: KubeApi, server: Server) -> None:
    server.answer = (200, {"items": [{"a": 1}]})
    assert await api.find("pods", "ns", labels="x=y,z", fields="involvedObject.uid=u") == [{"a": 1}]
    await api.find("batchruns", "")
    await api.get("batchruns", "ns", "demo")
    await api.get("jobs", "ns", "j")
    assert [path for _, path, _, _ in server.requests] == [
        "/api/v1/namespaces/ns/pods?labelSelector=x%3Dy,z&fieldSelector=involvedObject.uid%3Du",
        "/apis/batchrun.dev/v1alpha1/batchruns",
        "/apis/batchrun.dev/v1alpha1/namespaces/ns/batchruns/demo",
        "/apis/batch/v1/namespaces/ns/jobs/j",
    ]


async def test_objects_are_made_changed_and_deleted(api: KubeApi, server: Server) -> None:
    run = {"metadata": {"namespace": "ns", "name": "demo"}, "status": {}}
    await api.create("configmaps", run)
    await api.replace_run_status(run)
    await api.patch_pod("ns", "p", {"metadata": {}})
    await api.delete("jobs", "ns", "j", "uid-1")
    assert [(method, path) for method, path, _, _ in server.requests] == [
        ("POST", "/api/v1/namespaces/ns/configmaps"),
        ("PUT", "/apis/batchrun.dev/v1alpha1/namespaces/ns/batchruns/demo/status"),
        ("PATCH", "/api/v1/namespaces/ns/pods/p"),
        ("DELETE", "/apis/batch/v1/namespaces/ns/jobs/j"),
    ]
    assert server.requests[2][2] == "application/strategic-merge-patch+json"
    assert server.requests[3][3] == {"propagationPolicy": "Background", "preconditions": {"uid": "uid-1"}}


async def test_a_log_is_read_raw_from_its_end(api: KubeApi, server: Server) -> None:
    server.answer = (200, b"line\n\xff\n")
    assert await api.read_log("ns", "p", "runner", tail_lines=5, limit_bytes=99) == "line\n\N{REPLACEMENT CHARACTER}\n"
    assert server.requests[0][1] == "/api/v1/namespaces/ns/pods/p/log?container=runner&tailLines=5&limitBytes=99"


@pytest.mark.parametrize(
    ("status", "reason", "error"),
    [
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (400, "BadRequest", Refused),
        (403, "Forbidden", Refused),
        (422, "Invalid", Refused),
        (401, "Unauthorized", Unavailable),
        (410, "Expired", Unavailable),
        (429, "TooManyRequests", Unavailable),
        (500, "InternalError", Unavailable),
        (503, "ServiceUnavailable", Unavailable),
    ],
)
async def test_answers_become_errors_by_what_there_is_to_do(
    api: KubeApi, server: Server, status: int, reason: str, error: type[KubeError]
) -> None:
    server.answer = (status, {"kind": "Status", "reason": reason, "message": "words"})
    with pytest.raises(error, match="words") as caught:
        await api.get("pods", "ns", "p")
    assert (caught.value.status, caught.value.reason) == (status, reason)


@pytest.mark.parametrize("body", ["<html>bad gateway</html>", "[]", ""])
async def test_an_error_without_a_status_body_is_still_one(api: KubeApi, server: Server, body: str) -> None:
    server.answer = (502, body)
    with pytest.raises(Unavailable):
        await api.get("pods", "ns", "p")


async def test_no_answer_is_unavailable() -> None:
    configuration = client.Configuration()
    configuration.host = "http://127.0.0.1:9"
    api = KubeApi(client.ApiClient(configuration))
    with pytest.raises(Unavailable):
        await api.get("pods", "ns", "p")
    await api.close()
