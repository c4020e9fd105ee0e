"""A small site that does what makes browsers difficult, and a SearXNG-like search server beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.cluster.harness.images_api import picture
from tests.cluster.harness.kubectl import wait_for
from tests.cluster.harness.local_server import LocalServer, answer

LAB = """<!doctype html><html><head><title>The lab</title></head><body style="height: 4000px">
<h1>The lab</h1>
<button onclick="this.textContent = confirm('Really?') ? 'confirmed' : 'declined'">Ask</button>
<form action="/hello"><input name="name" aria-label="Name"><button>Send</button></form>
<button onclick="window.open('/popup')">Open</button>
<a href="/file">Report</a>
<a href="/to-metadata">Inside</a>
<button onclick="setTimeout(() => document.querySelector('h1').textContent = 'Changed later', 30)">Change</button>
<button onclick="for (;;) {}">Hang</button>
<img src="/picture.png" alt="A red square">
<script>console.log('the lab is open'); setTimeout(() => { throw new Error('lost in the lab') }, 0)</script>
</body></html>"""
ASK, NAME, OPEN, REPORT, INSIDE, CHANGE, HANG = "e3", "e5", "e7", "e8", "e9", "e10", "e11"
"""Refs of the first page of a session."""
MOVES = {
    "/moved": "/lab",
    "/to-metadata": "http://169.254.169.254/latest/meta-data/",
    "/to-mapped": "http://[::ffff:10.0.0.1]/",
}
PRYING = """<!doctype html><title>Prying</title><h1>Prying</h1><p id="said">…</p><script>
const doors = %s;
const tried = doors.map(url => new Promise(done => {
  if (url.startsWith('ws')) {
    const socket = new WebSocket(url);
    socket.onopen = () => done(url + ' opened');
    socket.onerror = () => done(url + ' closed');
  } else {
    fetch(url, {mode: 'no-cors'}).then(() => done(url + ' answered'), () => done(url + ' closed'));
  }
}));
Promise.all(tried).then(said => document.getElementById('said').textContent = 'tried: ' + said.join(', '));
</script>"""


class Lab(LocalServer):
    """`url` while the context is open; what it was asked is in `asked`."""

    def __init__(self, host: str, doors: tuple[str, ...] = (), pages: Mapping[str, str] | None = None) -> None:
        """`doors`: addresses that the page /prying tries. `pages`: more of them, by path."""
        lab = self
        self.asked: list[tuple[str, str]] = []
        """Path and cookies of each request."""
        self._doors = doors
        self._pages = dict(pages or {})

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                lab.asked.append((self.path, self.headers.get("Cookie", "")))
                lab._serve(self)

            def log_message(self, *_: Any) -> None: ...

        super().__init__(host, Handler)

    def wait_for(self, path: str) -> None:
        """Until this path was asked for."""
        wait_for(f"somebody asks for {path}", lambda: path in self.paths() or None, 30)

    def paths(self) -> list[str]:
        """What was asked for, without queries."""
        return [path.partition("?")[0] for path, _ in self.asked]

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        parts = urlsplit(request.path)
        cookies = request.headers.get("Cookie", "none")
        name = parse_qs(parts.query).get("name", [""])[0]
        pages = self._pages | {
            "/lab": LAB,
            "/hello": f"<!doctype html><title>Hello</title><h1>Hello {name}</h1>",
            "/popup": "<!doctype html><title>Popup</title><h1>A popup</h1>",
            "/cookies": f"<!doctype html><title>Cookies</title><p>cookies: {cookies}</p>",
            "/prying": PRYING % json.dumps(self._doors),
            "/long": "<!doctype html><title>Long</title>" + "".join(f"<p>Line {n} of many</p>" for n in range(3000)),
        }
        if parts.path in MOVES:
            answer(request, 302, "text/plain", b"", ("Location", MOVES[parts.path]))
        elif parts.path in pages:
            cookie = ("Set-Cookie", "who=the-first; Path=/")
            answer(request, 200, "text/html; charset=utf-8", pages[parts.path].encode(), cookie)
        elif parts.path == "/picture.png":
            answer(request, 200, "image/png", picture())
        elif parts.path == "/file":
            disposition = ("Content-Disposition", "attachment; filename=report.zip")
            answer(request, 200, "application/zip", b"PK", disposition)
        elif parts.path == "/endless":
            self.closing.wait(60)
        elif parts.path == "/search":
            hit = {"title": "The lab", "url": f"{self.url}/lab", "content": "A lab."}
            answer(request, 200, "application/json", json.dumps({"results": [hit]}).encode())
        else:
            answer(request, 404, "text/html", b"<!doctype html><title>Gone</title><h1>Nothing here</h1>")
