"""Puts the page together: our own HTML, style and script, the figures, and the pieces that the merge wrote."""

import shutil
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import orjson

from batchrun_runner.merge.report.row_index import write_piece

EMBEDDED_BYTES = 8 * 1024 * 1024
"""Results up to this size lie in the page as a whole."""


def write_page(page: Path, statistics: Mapping[str, Any], index: Path, trajectories: Path) -> None:
    """Write the page. `index`: the pieces of a RowIndex; `trajectories`: the result that they describe."""
    script, style = _asset("report.js"), _asset("report.css")
    figures = orjson.dumps(statistics).replace(b"<", b"\\u003c")
    fields = {
        "title": escape(str(statistics["run_name"])),
        "policy": f"default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"script-src '{_hash(script)}'; style-src '{_hash(style)}'",
        "style": style,
    }
    head, tail = _asset("report.html").split("<!-- pieces -->")
    with page.open("wb") as file:
        file.write(Template(head).substitute(fields).encode())
        file.write(b'<script type="application/json" id="statistics">' + figures + b"</script>\n")
        with index.open("rb") as pieces:
            shutil.copyfileobj(pieces, file)
        if trajectories.stat().st_size <= EMBEDDED_BYTES:
            write_piece(file, "rows", trajectories.read_bytes())
        file.write(Template(tail).substitute(script=script).encode())


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"
