"""Running programs, waiting for conditions, locking, progress lines."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.testbed.errors import CommandError, NotReadyError

# Debian keeps iptables and runc in sbin, which is not on every user's PATH.
SEARCH_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/bin"))

Word = str | Path  # one word of a command line

_started = time.monotonic()


def say(text: str) -> None:
    """One progress line on stderr with the seconds since the command began."""
    print(f"[{time.monotonic() - _started:6.1f}s] {text}", file=sys.stderr, flush=True)


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """This process's environment with a usable PATH and `extra`."""
    return {**os.environ, "PATH": SEARCH_PATH, **(extra or {})}


def run(
    argv: Sequence[Word],
    *,
    extra_env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    cwd: Path | None = None,
    timeout_seconds: float | None = None,
) -> str:
    """Run to the end and give back stdout; CommandError with the output when the status is not 0.

    A program that is not there counts as status 127.
    """
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            env=environment(extra_env),
            cwd=cwd,
            timeout=timeout_seconds,
            check=False,
        )
    except FileNotFoundError as error:  # as a shell says it
        raise CommandError(words, 127, str(error)) from error
    if done.returncode != 0:
        raise CommandError(words, done.returncode, done.stdout[-2000:] + done.stderr)
    return done.stdout


def succeeds(argv: Sequence[Word], *, timeout_seconds: float | None = None) -> bool:
    """True: the program ran and ended with 0."""
    try:
        run(argv, timeout_seconds=timeout_seconds)
    except (CommandError, OSError, subprocess.TimeoutExpired):
        return False
    return True


def wait_until(
    what: str,
    condition: Callable[[], bool],
    *,
    timeout_seconds: float = 60,
    give_up: Callable[[], str | None] = lambda: None,
) -> None:
    """Poll `condition` ten times a second.

    `give_up` gives the reason when waiting has become pointless (the process ended), else None.
    """
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        reason = give_up()
        if reason is not None:
            raise NotReadyError(f"{what}: {reason}")
        if time.monotonic() > deadline:
            raise NotReadyError(f"{what}: not within {timeout_seconds:g} s")
        time.sleep(0.1)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock; the kernel frees it when the holder dies, so a stale lock file means nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for {path.name}, held by another testbed command")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def write_atomically(path: Path, text: str, *, mode: int = 0o644) -> None:
    """Readers see the old file or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.chmod(mode)
    temporary.replace(path)
