"""Data sets over HTTP, from a real server on this machine."""

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from batchrun_runner.dataset.errors import DatasetUnreadable
from batchrun_runner.dataset.sources import http_source

BODY = b'{"prompt":"p1"}\n{"prompt":"p2"}\n'


class Server:
    """Answers by path; `cuts` times with half a body first."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.cuts = 0


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server("")

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

        def do_GET(self) -> None:
            if self.path == "/moved":
                self.send_response(302)
                self.send_header("Location", "/plain")
                self.end_headers()
                return
            if self.path == "/missing":
                self.send_error(404)
                return
            body = gzip.compress(BODY) if self.path == "/gzip" else BODY
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


def test_a_missing_data_set_is_named(server: Server) -> None:
    with pytest.raises(DatasetUnreadable, match=r"answers 404; correct dataset.uri"):
        list(http_source(server.url + "/missing").rows())
