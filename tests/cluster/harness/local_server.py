"""A small HTTP server of a test, in threads, while its context is open."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self


class LocalServer:
    """Serves at `url`, on an address that the run's runner reaches."""

    def __init__(self, host: str, handler: type[BaseHTTPRequestHandler]) -> None:
        self._server = ThreadingHTTPServer((host, 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.05], daemon=True)
        self.closing = threading.Event()
        """Set as the context ends: answers that take for ever wait for it."""
        self.host, self.port = host, self._server.server_port
        self.url = f"http://{host}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()


def answer(request: BaseHTTPRequestHandler, status: int, kind: str, body: bytes, *headers: tuple[str, str]) -> None:
    """One whole answer; a client that has gone already is none of the test's business."""
    request.send_response(status)
    request.send_header("Content-Type", kind)
    request.send_header("Content-Length", str(len(body)))
    for name, value in headers:
        request.send_header(name, value)
    request.end_headers()
    try:
        request.wfile.write(body)
    except ConnectionError:
        request.close_connection = True
