"""An agent with the real model client against the demo model; only the tools are scripted."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from batchrun_api.outcomes import Reason
from batchrun_api.spec.agent import PrefillMessage
from batchrun_api.spec.model import Model
from batchrun_runner.agent.errors import PromptFailed
from batchrun_runner.agent.loop import Agent, Limits
from batchrun_runner.demo_model.script import parse_script
from batchrun_runner.demo_model.server import DemoModel
from batchrun_runner.model.client import ModelClient
from batchrun_runner.model.policy import RetryPolicy, Surroundings
from batchrun_runner.records import PromptResult, PromptRow, Usage

ROW = PromptRow(index=3, key="k-0-0", prompt="Do it.", image="python:3.11", id="task/3", extra='{"level":2}')


@dataclass(frozen=True)
class Said:
    """A tool's words."""

    content: str
    failed: bool = False


def schema(name: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


@dataclass
class ScriptedToolbox:
    """Answers each call with the next of its words; an exception among them is raised."""

    said: list[Said | Exception] = field(default_factory=list)
    names: tuple[str, ...] = ("terminal", "read_file")
    executed: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    used: list[Usage] = field(default_factory=list)
    """By the models that each call asked; none beyond the last."""

    @property
    def schemas(self) -> list[dict[str, Any]]:
        return [schema(name) for name in self.names]

    async def execute(self, name: str, arguments: dict[str, Any]) -> Said:
        self.executed.append((name, arguments))
        words = self.said.pop(0) if self.said else Said('{"output":"ok"}')
        if isinstance(words, Exception):
            raise words
        return words

    def take_usage(self) -> Usage:
        return self.used.pop(0) if self.used else Usage()


def call(command: str = "ls", name: str = "terminal", **more: Any) -> dict[str, Any]:
    return {"name": name, "arguments": {"command": command}, **more}


def calls(*made: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A turn that calls tools."""
    return {"tool_calls": list(made) or [call()], **fields}


async def _no_wait(_: float) -> None:
    return


@dataclass
class Lab:
    """Run one prompt over scripted turns. What was sent stays here."""

    toolbox: ScriptedToolbox = field(default_factory=ScriptedToolbox)
    sent: list[dict[str, Any]] = field(default_factory=list)
    row: PromptRow = ROW
    system_prompt: str | None = None
    ephemeral_system_prompt: str | None = None
    prefill: tuple[PrefillMessage, ...] = ()
    policy: RetryPolicy = field(default_factory=lambda: RetryPolicy(attempts={Reason.PROVIDER_ERROR: 2}))
    timeout_seconds: int = 600

    async def run(self, *turns: Any, **limits: Any) -> PromptResult:
        script = parse_script([{"match": "", "turns": list(turns)}]) if turns else ()
        around = Surroundings(monotonic=lambda: 0.0, wall_clock=lambda: 0.0, sleep=_no_wait)
        async with DemoModel(script=script, keep=100) as demo:
            model = Model(name="m", base_url=demo.base_url, timeout_seconds=self.timeout_seconds)
            try:
                async with ModelClient(model, policy=self.policy, around=around) as client:
                    agent = Agent(
                        client, Limits(**limits), self.system_prompt, self.ephemeral_system_prompt, self.prefill
                    )
                    return await agent.run(self.row, self.toolbox, ("terminal", "file"))
            finally:
                self.sent += demo.bodies


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.fixture
def tool_calls() -> Any:
    """`tool_calls(call, ...)`: a scripted turn; `tool_calls.call(command, name)`: one call."""
    return calls


@pytest.fixture
def one_call() -> Any:
    return call


@pytest.fixture
def lost() -> PromptFailed:
    return PromptFailed(Reason.SANDBOX_LOST, "killed for memory")


@pytest.fixture
def said() -> type[Said]:
    return Said
