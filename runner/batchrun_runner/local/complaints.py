"""What people are told on standard error."""

import sys
from contextlib import suppress

from batchrun_runner.text import without_controls


def complain(text: str) -> None:
    """Servers' words may hold control sequences of terminals; nobody who reads is no fault."""
    with suppress(OSError):
        sys.stderr.write(without_controls(text, kept="\n") + "\n")
