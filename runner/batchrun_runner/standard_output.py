"""Standard output that may go away: a full disk, a reader that has seen enough."""

import os
from collections.abc import Callable
from typing import Any, TextIO

READER_GONE = 128 + 13
"""The shell's convention for a process that SIGPIPE ended."""


def send_nowhere(stream: TextIO) -> None:
    """What is still in the stream's buffer, and whatever else writes there, must not fail again at the exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


class GuardedOutput:
    """Standard output whose loss is told once and never raised; what is written afterwards goes nowhere."""

    def __init__(self, stream: TextIO, when_lost: Callable[[OSError], None] = lambda _: None) -> None:
        """`when_lost` is called from within a write, at most once."""
        self._stream = stream
        self.when_lost = when_lost
        self.error: OSError | None = None
        """Why it was lost; None: it was not."""

    def write(self, text: str) -> int:
        """See TextIO."""
        try:
            self._stream.write(text)
        except OSError as error:
            self._lose(error)
        return len(text)

    def flush(self) -> None:
        """See TextIO."""
        try:
            self._stream.flush()
        except OSError as error:
            self._lose(error)

    @property
    def reader_is_gone(self) -> bool:
        """Whether it was a pipe whose other end was closed (`| head`), which is no fault."""
        return isinstance(self.error, BrokenPipeError)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _lose(self, error: OSError) -> None:
        send_nowhere(self._stream)
        if self.error is None:
            self.error = error
            self.when_lost(error)
