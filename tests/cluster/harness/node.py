"""The node of our own cluster, as root on it: what no API of Kubernetes does."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from typing import Any

from tests.cluster.testbed.settings import Layout


class Node:
    """Signals to containers, past the kubelet."""

    def __init__(self, layout: Layout) -> None:
        self._ctr = ["ctr", f"--address={layout.containerd_socket}", "--namespace=k8s.io"]

    @staticmethod
    def why_not(layout: Layout) -> str:
        """Why there is no such node here; empty: there is one."""
        if layout.given.is_file() or not layout.containerd_socket.is_socket():
            return "the cluster is not our own, so its node cannot be reached"
        if os.geteuid() != 0 or shutil.which("ctr") is None:
            return "containers of the node can be reached by root with ctr only"
        return ""

    def pid(self, pod: dict[str, Any], container: str) -> int:
        """The process, as this machine counts it, that is PID 1 of a running container."""
        statuses = pod["status"]["containerStatuses"]
        name = next(status["containerID"] for status in statuses if status["name"] == container)
        lines = self._run("tasks", "list").splitlines()[1:]
        tasks = {words[0]: int(words[1]) for words in map(str.split, lines)}
        return tasks[name.partition("://")[2]]

    def kill(self, pod: dict[str, Any], container: str) -> None:
        """SIGKILL to PID 1 of a container."""
        os.kill(self.pid(pod, container), signal.SIGKILL)

    def _run(self, *words: str) -> str:
        return subprocess.run([*self._ctr, *words], capture_output=True, text=True, timeout=30, check=True).stdout
