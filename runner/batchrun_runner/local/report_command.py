"""`batchrun report`: a result's page and its rows over HTTP, on loopback alone."""

import re
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from batchrun_runner.ledger.layout import REPORT, TRAJECTORIES
from batchrun_runner.storage.errors import NotFound, RangeMissing, StorageError
from batchrun_runner.storage.folder import FolderStore
from batchrun_runner.storage.store import ObjectStore

LOOPBACK = "127.0.0.1"
_RANGE = re.compile(r"bytes=(\d{1,18})-(\d{1,18})")
_NO_REPORT = "holds no report.html; name a folder with results, data/<runName> for instance, and merge it if it is old"


def run_report(place: str, port: int) -> int:
    """Serve until Ctrl-C; returns the exit code: 0, or 2 after one line on what is to be mended."""
    try:
        store = _open(place)
        if store is None or store.head(REPORT) is None:
            sys.stderr.write(f"{place}: {_NO_REPORT}\n")
            return 2
        server = ReportServer(store, port)
    except StorageError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"port {port}: {error.strerror or error}; choose another with --port\n")
        return 2
    with server:
        sys.stdout.write(f"{server.url}  (Ctrl-C ends it)\n")
        sys.stdout.flush()
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0


def _open(place: str) -> ObjectStore | None:
    """The store at this place; None where it is no folder."""
    if not place.startswith("s3://"):
        return FolderStore(Path(place)) if Path(place).is_dir() else None
    from batchrun_runner.storage.s3 import S3Store  # noqa: PLC0415 - loads an S3 client

    bucket, _, prefix = place.removeprefix("s3://").partition("/")
    return S3Store(bucket, prefix) if bucket else None


class ReportServer(ThreadingHTTPServer):
    """Gives away two objects of one store."""

    daemon_threads = True

    def __init__(self, store: ObjectStore, port: int = 0) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.store = store

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{LOOPBACK}:{self.server_address[1]}/"


class _Handler(BaseHTTPRequestHandler):
    server: ReportServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """The page, or a range of the rows."""
        port = self.server.server_address[1]
        if self.headers.get("Host") not in {f"{LOOPBACK}:{port}", f"localhost:{port}"}:
            # Another site whose name was turned to this address must not read it.
            self._answer(HTTPStatus.FORBIDDEN)
            return
        try:
            if self.path in {"/", f"/{REPORT}"}:
                self._answer(HTTPStatus.OK, self.server.store.get(REPORT).body, "text/html; charset=utf-8")
            elif self.path == f"/{TRAJECTORIES}":
                self._rows()
            else:
                self._answer(HTTPStatus.NOT_FOUND)
        except (NotFound, RangeMissing):
            self._answer(HTTPStatus.NOT_FOUND)
        except StorageError as error:
            self._answer(HTTPStatus.BAD_GATEWAY, str(error).encode())

    def _rows(self) -> None:
        wanted = _RANGE.fullmatch(self.headers.get("Range", ""))
        if wanted is None or int(wanted[1]) > int(wanted[2]):
            self._answer(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE)
            return
        start, end = int(wanted[1]), int(wanted[2])
        body = self.server.store.get_range(TRAJECTORIES, start, end + 1 - start)
        self._answer(HTTPStatus.PARTIAL_CONTENT, body, "application/octet-stream", f"bytes {start}-{end}/*")

    def _answer(
        self, status: HTTPStatus, body: bytes = b"", kind: str = "text/plain; charset=utf-8", content_range: str = ""
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if content_range:
            self.send_header("Content-Range", content_range)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nobody reads a line for each row that is looked at."""
