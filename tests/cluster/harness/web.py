"""A small site and a SearXNG-like search server, on an address that the run's runner reaches."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

ARTICLE = """<!doctype html><html><head><title>Of otters</title><script>ignore()</script></head><body>
<nav><a href="/">Home</a></nav><article><h1>Of otters</h1>
<p>Sea otters hold hands while they sleep, so that they do not drift apart in the water of the bay.</p>
<p>They keep a favourite stone in a pocket of skin; see <a href="/stones">stones</a> for more of them.</p></article>
</body></html>"""
METADATA = "http://169.254.169.254/latest/meta-data/"


class Site:
    """`url` while the context is open. Paths: /otters, /moved (to /otters), /to-metadata, /loop, /plain, /picture,
    /large, /endless, /gone, and /search as SearXNG serves it.
    """

    def __init__(self, host: str) -> None:
        site = self
        self.asked: list[tuple[str, str]] = []
        """Host header and path of each request."""

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append((self.headers.get("Host", ""), self.path))
                site._serve(self)

            def log_message(self, *_: Any) -> None: ...

        self._closing = threading.Event()
        self._server = ThreadingHTTPServer((host, 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.05], daemon=True)
        self.host, self.port = host, self._server.server_port
        self.url = f"http://{host}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(request.path)
        moves = {"/moved": "/otters", "/to-metadata": METADATA, "/loop": "/loop", "/to-file": "file:///etc/passwd"}
        if parts.path in moves:
            _answer(request, 302, "text/plain", b"", ("Location", moves[parts.path]))
        elif parts.path == "/otters":
            _answer(request, 200, "text/html; charset=utf-8", ARTICLE.encode(), ("Set-Cookie", "who=the-first; Path=/"))
        elif parts.path == "/plain":
            _answer(request, 200, "text/plain; charset=latin-1", "Größe\n".encode("latin-1"))
        elif parts.path == "/cookies":
            _answer(request, 200, "text/plain", f"cookie: {request.headers.get('Cookie')}".encode())
        elif parts.path == "/picture":
            _answer(request, 200, "image/png", b"\x89PNG")
        elif parts.path == "/large":
            _answer(request, 200, "text/plain", b"x" * (11 << 20))
        elif parts.path == "/endless":
            request.send_response(200)
            request.send_header("Content-Type", "text/plain")
            request.end_headers()
            self._closing.wait(60)
        elif parts.path == "/search":
            _answer(request, 200, "application/json", json.dumps(_results(self.url, parts.query)).encode())
        else:
            _answer(request, 404, "text/plain", b"nothing here")


def _results(url: str, query: str) -> dict[str, Any]:
    words = parse_qs(query)
    assert words["format"] == ["json"]
    if words["q"] == ["nothing at all"]:
        return {"results": []}
    found = [
        {"title": f"Result {number} for {words['q'][0]}", "url": f"{url}/otters?{number}", "content": "otters " * 300}
        for number in range(8)
    ]
    return {"results": [{"title": "no address"}, "odd", *found], "suggestions": []}


def _answer(request: BaseHTTPRequestHandler, status: int, kind: str, body: bytes, *headers: tuple[str, str]) -> None:
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
