"""What the parts of one cluster have in common, and what a component is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.testbed.settings import API_PORT, Layout


@dataclass(frozen=True)
class Context:
    """Paths, programs and the address of the cluster at hand."""

    layout: Layout
    programs: Mapping[str, Path]
    node_ip: str
    serialize_image_pulls: bool

    def program(self, name: str) -> str:
        return str(self.programs[name])

    @property
    def api_url(self) -> str:
        return f"https://{self.node_ip}:{API_PORT}"


@dataclass(frozen=True)
class Component:
    """One daemon: how to start it and how to see that it serves.

    `prepare` writes its configuration files and is called before every start.
    """

    name: str
    argv: list[str]
    is_ready: Callable[[], bool]
    prepare: Callable[[], None] = lambda: None
    extra_env: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float = 60
