"""Data sets over HTTP, from a real server on this machine."""

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.unit.data.support import Run, batch_rows

from batchrun_api.conditions import Reason
from batchrun_runner.dataset.errors import DatasetUnreadable
from batchrun_runner.dataset.sources import http_source
from batchrun_runner.plan import make_plan

BODY = b'{"prompt":"p1"}\n{"prompt":"p2"}\n'


class Server:
    """Answers by path; `cuts` times with half a body first, `overloads` times with 503."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.cuts = 0
        self.overloads = 0
        self.requests = 0
        self.body = BODY
        self.over = threading.Event()


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server("")

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

        def do_GET(self) -> None:
            state.requests += 1
            if state.overloads:
                state.overloads -= 1
                self.send_error(503)
                return
            if self.path in {"/moved", "/circle"}:
                self.send_response(302)
                self.send_header("Location", "/plain" if self.path == "/moved" else "/circle")
                self.end_headers()
                return
            if self.path[1:].isdigit():
                self.send_error(int(self.path[1:]))
                return
            if self.path == "/silent":
                state.over.wait(30)
                return
            body = gzip.compress(state.body) if self.path == "/gzip" else state.body
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if state.cuts:
                state.cuts -= 1
                body = body[: len(body) // 2]
            self.wfile.write(body)

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    state.url = f"http://127.0.0.1:{http.server_address[1]}"
    yield state
    state.over.set()
    http.shutdown()
    http.server_close()
    thread.join()


@pytest.mark.parametrize("path", ["/plain", "/gzip", "/moved"])
def test_a_data_set_is_read_over_http(server: Server, path: str) -> None:
    assert len(list(http_source(server.url + path).rows())) == 2


def test_e06_a_cut_download_is_read_again_and_never_taken_for_the_end(server: Server) -> None:
    server.cuts = 2
    assert len(list(http_source(server.url + "/plain").rows())) == 2
    server.cuts = 100
    with pytest.raises(DatasetUnreadable, match="cannot be read"):
        list(http_source(server.url + "/plain").rows())


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_data_set_that_is_refused_is_named_and_not_asked_for_again(server: Server, status: int) -> None:
    with pytest.raises(DatasetUnreadable, match=rf"/{status} answers {status}; correct dataset.uri") as caught:
        list(http_source(f"{server.url}/{status}").rows())
    assert caught.value.reason is Reason.DATASET_UNREADABLE
    assert server.requests == 1


def test_an_overloaded_server_is_asked_again_a_few_times(server: Server) -> None:
    server.overloads = 3
    assert len(list(http_source(server.url + "/plain").rows())) == 2
    server.overloads = 100
    with pytest.raises(DatasetUnreadable, match="answers 503"):
        list(http_source(server.url + "/plain").rows())


def test_a_server_that_says_nothing_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("batchrun_runner.dataset.http._TIMEOUT_SECONDS", 0.05)
    with pytest.raises(DatasetUnreadable, match="/silent cannot be read: ReadTimeout"):
        list(http_source(server.url + "/silent").rows())
    assert server.requests > 1


def test_an_address_that_leads_in_a_circle_is_named(server: Server) -> None:
    with pytest.raises(DatasetUnreadable, match="/circle cannot be read: TooManyRedirects"):
        list(http_source(server.url + "/circle").rows())


def test_a_data_set_that_changes_under_a_plan_runs_as_planned_and_is_seen_by_the_resume(
    server: Server, run: Run
) -> None:
    source = http_source(server.url + "/plain")
    outcome = make_plan(run.settings(), run.store, source, "one", clock=lambda: 1000.0)
    server.body = b'{"prompt":"p3"}\n{"prompt":"p2"}\n'
    (batch,) = outcome.plan.batches
    assert [row.prompt for row in batch_rows(run.store, "one", batch)] == ["p1", "p2"]
    run.work(outcome, batch)
    assert run.merge(outcome).result.completed == 2

    resumed = make_plan(run.settings(), run.store, source, "two", clock=lambda: 2000.0)

    counts = resumed.plan.counts
    assert (counts.total, counts.done, counts.to_run, counts.orphaned) == (2, 1, 1, 1)
    assert [row.prompt for row in batch_rows(run.store, "two", resumed.plan.batches[0])] == ["p3"]
