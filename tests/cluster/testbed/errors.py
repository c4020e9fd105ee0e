"""What can go wrong in the testbed.

TestbedError
├── CommandError      a program that we ran ended with another status than 0
├── NotReadyError     a condition did not become true in time, or its process ended first
└── HostError         this machine cannot run the testbed; another cluster must be given by KUBECONFIG
"""

from __future__ import annotations

from collections.abc import Sequence


class TestbedError(Exception):
    """Root of the tree: the command line prints it without a traceback."""

    __test__ = False  # pytest collects classes by the name Test*


class CommandError(TestbedError):
    """A program failed; `output` holds the end of what it wrote."""

    def __init__(self, argv: Sequence[str], returncode: int, output: str) -> None:
        super().__init__(f"`{' '.join(argv)}` ended with status {returncode}:\n{output.strip()[-4000:]}")
        self.argv = list(argv)
        self.returncode = returncode
        self.output = output


class NotReadyError(TestbedError):
    """Something did not become ready; the message ends with the last lines of its log where there is one."""


class HostError(TestbedError):
    """A precondition of this machine is not met."""
