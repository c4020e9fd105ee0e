"""HTML as Markdown, within bounds: a page of a few MB can take minutes and gigabytes, and no thread can be ended.

So what is large is converted in a process of its own: `python -m batchrun_runner.web.converting`. It reads a line of
JSON (`url`, `charset`) and the page, and writes one object, `title` and `text`.
"""

import asyncio
import json
import os
import resource
import subprocess
import sys
from typing import Any

from batchrun_runner.text import clean_text
from batchrun_runner.web.errors import WebFailure

SMALL_BYTES = 64 * 1024
"""Up to here the worst page takes a second: it is not worth a process."""
_MEMORY_BYTES = 512 * 1024 * 1024
"""Address space of the process: half of what a runner has."""
_CPU_SECONDS = 60
_PASSED_ON = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL")
"""All that the process may know of the environment: keys stay out."""


class Converter:
    """Converts for all prompts of a process, one large page at a time."""

    def __init__(self) -> None:
        self._one_at_a_time = asyncio.Semaphore(1)

    async def convert(self, body: bytes, url: str, charset: str) -> tuple[str, str]:
        """Title and text; `charset` empty: the page may say it. Raises WebFailure. Cancelling it ends the process."""
        if len(body) <= SMALL_BYTES:
            return await asyncio.to_thread(_blamed, body, url, charset)
        async with self._one_at_a_time:
            return await _apart(body, url, charset)


def decoded(body: bytes, charset: str) -> str:
    """The text in a charset that a server names, which may be none, or no text's: UTF-8 then."""
    try:
        text = body.decode(charset or "utf-8", "replace")
    except (LookupError, ValueError):
        text = body.decode("utf-8", "replace")
    return clean_text(text)


def convert(body: bytes, url: str, charset: str) -> tuple[str, str]:
    """Title and text, in this very thread."""
    # Loading it takes a third of a second, and few runs read pages.
    import trafilatura  # noqa: PLC0415

    html: Any = decoded(body, charset) if charset else body
    text = trafilatura.extract(
        html, url=url, output_format="markdown", include_links=True, include_tables=True, favor_recall=True
    )
    metadata = trafilatura.extract_metadata(html)
    title = (metadata.title if metadata else "") or ""
    return clean_text(title), clean_text(text or trafilatura.html2txt(html) or "")


def _blamed(body: bytes, url: str, charset: str) -> tuple[str, str]:
    try:
        return convert(body, url, charset)
    except Exception as error:
        raise WebFailure("unsupported_content", f"its HTML cannot be read ({type(error).__name__})") from error


async def _apart(body: bytes, url: str, charset: str) -> tuple[str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
    )  # fmt: skip
    try:
        head = json.dumps({"url": url, "charset": charset}).encode()
        output, _ = await process.communicate(head + b"\n" + body)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise WebFailure("too_large", "its HTML takes too much memory or time to be read")
    found = json.loads(output)
    return found["title"], found["text"]


def _main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    head = json.loads(sys.stdin.buffer.readline())
    title, text = convert(sys.stdin.buffer.read(), head["url"], head["charset"])
    sys.stdout.buffer.write(json.dumps({"title": title, "text": text}).encode())


if __name__ == "__main__":
    _main()
