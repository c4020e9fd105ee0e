"""A lab: the real client against the demo model over real HTTP, with scripted turns and a clock nobody waits for."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from batchrun_api.spec.model import Model
from batchrun_runner.demo_model.script import parse_script
from batchrun_runner.demo_model.server import DemoModel
from batchrun_runner.model.client import ModelClient
from batchrun_runner.model.failures import Failure
from batchrun_runner.model.policy import RetryPolicy, Surroundings
from batchrun_runner.model.reply import Reply

NOW = 1_800_000_000.0

PROMPT = {"role": "user", "content": "Do it."}


def tool(name: str, *required: str) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {word: {"type": "string"} for word in required}}
    if required:
        parameters["required"] = list(required)
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


TOOLS = [tool("terminal", "command"), tool("read_file", "path"), tool("list")]


@dataclass
class Lab:
    """Ask scripted turns. What was sent and how long was waited stays here."""

    waits: list[float] = field(default_factory=list)
    sent: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    held: list[Failure] = field(default_factory=list)
    clock: float = 0.0
    random: float = 0.5
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    api_key: str | None = None
    secrets: tuple[str, ...] = ()

    async def ask(
        self,
        *turns: Any,
        messages: list[dict[str, Any]] | None = None,
        tools: list[dict[str, Any]] | None = None,
        final: bool = False,
        **model: Any,
    ) -> Reply:
        """The reply to a prompt that is answered with these turns. A list is what successive attempts get."""
        script = parse_script([{"match": "", "turns": list(turns)}])
        async with DemoModel(script=script, keep=200) as demo:
            fields = {"name": "m", "base_url": demo.base_url, **model}
            try:
                async with ModelClient(
                    Model(**fields), self.api_key, secrets=self.secrets, policy=self.policy, around=self.around()
                ) as client:
                    offered = TOOLS if tools is None else tools
                    return await client.query(messages or [PROMPT], offered, final=final, held=self.held.append)
            finally:
                self.sent += demo.bodies
                self.headers += demo.headers

    def around(self) -> Surroundings:
        return Surroundings(
            monotonic=lambda: self.clock, wall_clock=lambda: NOW, sleep=self._sleep, random=lambda: self.random
        )

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.clock += seconds


@pytest.fixture
def lab() -> Lab:
    return Lab()
