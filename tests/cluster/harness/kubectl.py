"""kubectl as a user has it, with JSON read for tests, and waiting on conditions."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def wait_for(
    what: str, condition: Callable[[], T | None], timeout_seconds: float = 60, *, poll_seconds: float = 0.1
) -> T:
    """The first true value of `condition`. Fails the test with `what` and the last value after the timeout."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_seconds:g} s: {what} (last: {value!r})")
        time.sleep(poll_seconds)


class Kubectl:
    """One namespace's view of the cluster."""

    def __init__(self, program: str, kubeconfig: Path, namespace: str) -> None:
        self.namespace = namespace
        self._base = [program, f"--kubeconfig={kubeconfig}", f"--namespace={namespace}"]

    def within(self, namespace: str) -> Kubectl:
        """The same cluster, another namespace."""
        other = object.__new__(Kubectl)
        other.namespace = namespace
        other._base = [*self._base[:2], f"--namespace={namespace}"]
        return other

    def run(self, *arguments: str, stdin: str | None = None, check: bool = True, timeout: float = 60) -> str:
        """stdout of a call. A call that fails fails the test with kubectl's words."""
        done = subprocess.run(
            [*self._base, *arguments], input=stdin, capture_output=True, text=True, timeout=timeout, check=False
        )
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout if done.returncode == 0 else done.stdout + done.stderr

    def popen(self, *arguments: str) -> subprocess.Popen[str]:
        """A call that goes on, such as a watch. The test ends it."""
        return subprocess.Popen(
            [*self._base, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
        )

    def apply(self, *documents: dict[str, Any]) -> None:
        """`kubectl apply -f -`."""
        self.run("apply", "-f", "-", stdin="\n---\n".join(json.dumps(document) for document in documents))

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        """One object, or None where there is none."""
        text = self.run("get", kind, name, "-o", "json", "--ignore-not-found")
        return dict(json.loads(text)) if text.strip() else None

    def list(self, kind: str, selector: str = "") -> list[dict[str, Any]]:
        """Objects of a kind, by label selector."""
        arguments = [f"--selector={selector}"] if selector else []
        return list(json.loads(self.run("get", kind, "-o", "json", *arguments))["items"])
