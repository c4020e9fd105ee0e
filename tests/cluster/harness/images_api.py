"""A server of pictures: an OpenAI-compatible images API, and pictures to look at, on an address that runners reach."""

from __future__ import annotations

import base64
import io
import json
from http.server import BaseHTTPRequestHandler
from typing import Any

from PIL import Image

from tests.cluster.harness.local_server import LocalServer, answer

METADATA = "http://169.254.169.254/latest/meta-data/"


def picture(width: int = 40, height: int = 30, color: str = "red", form: str = "PNG") -> bytes:
    """A picture of one colour."""
    file = io.BytesIO()
    Image.new("RGB", (width, height), color).save(file, form)
    return file.getvalue()


class ImagesAPI(LocalServer):
    """`base_url` while the context is open; what POST /v1/images/generations answers goes by the prompt's first word.

    url, jpeg: by an address here; elsewhere, moved: by one that is not public; empty, junk, broken: without a picture;
    refuse, break: as they say; anything else: in the answer. GET: /red.png, /large.jpg (4000 x 3000), /text,
    /to-metadata.
    """

    def __init__(self, host: str) -> None:
        api = self
        self.asked: list[dict[str, Any]] = []
        """Bodies of the requests for pictures."""
        self.keys: list[str | None] = []
        """Their Authorization headers."""
        self.fetched: list[tuple[str, str | None]] = []
        """Path and Authorization header of each GET."""

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                api.fetched.append((self.path, self.headers.get("Authorization")))
                api._serve(self)

            def do_POST(self) -> None:
                api._generate(self)

            def log_message(self, *_: Any) -> None: ...

        super().__init__(host, Handler)
        self.base_url = f"{self.url}/v1"

    def _serve(self, request: BaseHTTPRequestHandler) -> None:
        match request.path:
            case "/red.png":
                answer(request, 200, "image/png", picture())
            case "/large.jpg":
                answer(request, 200, "image/jpeg", picture(4000, 3000, "blue", "JPEG"))
            case "/text":
                answer(request, 200, "text/html", b"no picture")
            case "/to-metadata":
                answer(request, 302, "text/plain", b"", ("Location", METADATA))
            case _:
                answer(request, 404, "text/plain", b"nothing here")

    def _generate(self, request: BaseHTTPRequestHandler) -> None:
        body = json.loads(request.rfile.read(int(request.headers["Content-Length"])))
        if request.path != "/v1/images/generations":
            answer(request, 404, "application/json", b'{"error": {"message": "no such path"}}')
            return
        self.asked.append(body)
        self.keys.append(request.headers.get("Authorization"))
        usage = {"input_tokens": 30, "output_tokens": 4000, "total_tokens": 4030}
        in_answer = {"data": [{"b64_json": base64.b64encode(picture(64, 64, "green")).decode()}], "usage": usage}
        by_word: dict[str, tuple[int, Any]] = {
            "url": (200, {"data": [{"url": f"{self.url}/red.png"}]}),
            "elsewhere": (200, {"data": [{"url": METADATA}]}),
            "moved": (200, {"data": [{"url": f"{self.url}/to-metadata"}]}),
            "empty": (200, {"data": []}),
            "junk": (200, {"data": [{"b64_json": base64.b64encode(b"no picture").decode()}]}),
            "jpeg": (200, {"data": [{"url": f"{self.url}/large.jpg"}]}),
            "broken": (200, {"data": [{"b64_json": "%%%"}]}),
            "refuse": (400, {"error": {"message": "not with us", "code": "content_policy_violation"}}),
            "break": (501, {"error": {"message": "out of paint"}}),
        }
        status, said = by_word.get(body["prompt"].split()[0], (200, in_answer))
        answer(request, status, "application/json", json.dumps(said).encode())
