"""A small site and a SearXNG-like search server, on an address that the run's runner reaches."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.cluster.harness.local_server import LocalServer, answer

ARTICLE = """<!doctype html><html><head><title>Of otters</title><script>ignore()</script></head><body>
<nav><a href="/">Home</a></nav><article><h1>Of otters</h1>
<p>Sea otters hold hands while they sleep, so that they do not drift apart in the water of the bay.</p>
<p>They keep a favourite stone in a pocket of skin; see <a href="/stones">stones</a> for more of them.</p></article>
</body></html>"""
METADATA = "http://169.254.169.254/latest/meta-data/"


class Site(LocalServer):
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

        super().__init__(host, Handler)

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(request.path)
        moves = {"/moved": "/otters", "/to-metadata": METADATA, "/loop": "/loop", "/to-file": "file:///etc/passwd"}
        if parts.path in moves:
            answer(request, 302, "text/plain", b"", ("Location", moves[parts.path]))
        elif parts.path == "/otters":
            answer(request, 200, "text/html; charset=utf-8", ARTICLE.encode(), ("Set-Cookie", "who=the-first; Path=/"))
        elif parts.path == "/plain":
            answer(request, 200, "text/plain; charset=latin-1", "Größe\n".encode("latin-1"))
        elif parts.path == "/cookies":
            answer(request, 200, "text/plain", f"cookie: {request.headers.get('Cookie')}".encode())
        elif parts.path == "/picture":
            answer(request, 200, "image/png", b"\x89PNG")
        elif parts.path == "/large":
            answer(request, 200, "text/plain", b"x" * (11 << 20))
        elif parts.path == "/endless":
            request.send_response(200)
            request.send_header("Content-Type", "text/plain")
            request.end_headers()
            self.closing.wait(60)
        elif parts.path == "/search":
            answer(request, 200, "application/json", json.dumps(_results(self.url, parts.query)).encode())
        else:
            answer(request, 404, "text/plain", b"nothing here")


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
