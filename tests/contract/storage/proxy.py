"""A proxy in front of the real S3 server that injects the faults of the field reports: overload, cut bodies."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Request:
    """What a rule looks at."""

    method: str
    path: str
    headers: dict[str, str]
    """Names in lower case."""


@dataclass(frozen=True)
class Answer:
    """A fault: an answer of the proxy's own."""

    status: int
    code: str

    @property
    def body(self) -> bytes:
        return f"<Error><Code>{self.code}</Code><Message>injected</Message></Error>".encode()


class Page(Answer):
    """A page of a listing that the proxy makes up."""

    def __init__(self, content: str) -> None:
        super().__init__(200, content)

    @property
    def body(self) -> bytes:
        return f"<ListBucketResult>{self.code}</ListBucketResult>".encode()


CUT = "cut"
"""Send the head of the real answer and half of its body, then close."""
Rule = Callable[[Request], "Answer | str | None"]


@dataclass
class FaultProxy:
    """The proxy: `url` for the client, `rule` to be set by a test, `seen` all requests in order."""

    url: str
    rule: Rule = lambda request: None
    seen: list[Request] = field(default_factory=list)

    def first(self, count: int, fault: Answer | str, method: str, having: str = "") -> None:
        """Give `fault` to the first `count` requests of this method whose path holds `having`."""
        left = [count]

        def rule(request: Request) -> Answer | str | None:
            if request.method == method and having in request.path and left[0] > 0:
                left[0] -= 1
                return fault
            return None

        self.rule = rule


@contextmanager
def proxy_to(target_url: str) -> Iterator[FaultProxy]:
    """A running proxy. The client's Host header goes through unchanged, so signatures stay valid."""
    parts = urlsplit(target_url)
    proxy = FaultProxy("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            request = Request(self.command, self.path, {name.lower(): value for name, value in self.headers.items()})
            proxy.seen.append(request)
            fault = proxy.rule(request)
            if isinstance(fault, Answer):
                self._send(fault.status, {"content-type": "application/xml"}, fault.body)
                return
            connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80)
            try:
                connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    connection.putheader(name, value)
                connection.endheaders(body)
                answer = connection.getresponse()
                answer_body = answer.read()
                headers = {k: v for k, v in answer.getheaders() if k.lower() not in {"transfer-encoding", "connection"}}
                self._send(answer.status, headers, answer_body, cut=fault == CUT)
            finally:
                connection.close()

        def _send(self, status: int, headers: dict[str, str], body: bytes, *, cut: bool = False) -> None:
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() != "content-length":
                    self.send_header(name, value)
            length = headers.get("Content-Length", str(len(body))) if self.command == "HEAD" else str(len(body))
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body[: len(body) // 2] if cut else body)
            if cut:
                self.close_connection = True

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle  # noqa: N815 - the names that http.server calls

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    proxy.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
