"""What the tests of the data side share: a run in a folder, worked on by a scripted agent."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from batchrun_api.outcomes import Outcome, Reason
from batchrun_api.plan import PlannedBatch
from batchrun_api.spec import BatchRunSpec
from batchrun_runner.agent.trajectory import to_row
from batchrun_runner.dataset.sources import text_source
from batchrun_runner.ledger.recorder import BatchRecorder
from batchrun_runner.merge.merger import Merged, merge
from batchrun_runner.plan import PlanOutcome, make_plan, read_batch_rows
from batchrun_runner.records import PromptResult, PromptRow, ToolStat, Usage
from batchrun_runner.settings import Owner, RunSettings
from batchrun_runner.storage.store import Listed, ObjectStore, Stored

Agent = Callable[[PromptRow], PromptResult]


def batch_rows(store: ObjectStore, plan_id: str, batch: PlannedBatch) -> list[PromptRow]:
    """The rows of a planned batch."""
    return read_batch_rows(store, plan_id, number=batch.number, offset=batch.offset, length=batch.length)


class Killed(BaseException):
    """The process dies here. Not an Exception, so that nothing catches it by chance."""


def jsonl(rows: Iterable[Mapping[str, Any] | str]) -> str:
    """JSON lines of prompts or whole rows."""
    return "".join(json.dumps({"prompt": row} if isinstance(row, str) else row) + "\n" for row in rows)


def answered(row: PromptRow, *, reasoning: bool = True, call: str = "terminal") -> PromptResult:
    """A sample with one tool call and a final answer."""
    thought = "<think>\nlet me see\n</think>\n" if reasoning else ""
    calls = [{"id": "c1", "type": "function", "function": {"name": call, "arguments": '{"command":"ls"}'}}]
    return PromptResult(
        outcome=Outcome.COMPLETED,
        conversations=[
            {"from": "human", "value": row.prompt, "tool_calls": []},
            {"from": "gpt", "value": thought, "tool_calls": calls},
            {"from": "tool", "value": '{"exit_code":0}', "tool_calls": []},
            {"from": "gpt", "value": f"{thought}the answer to {row.prompt}", "tool_calls": []},
        ],
        api_calls=2,
        toolsets=("terminal",),
        tool_stats={"terminal": ToolStat(1, 1, 0)},
        usage=Usage(100, 20, 5 if reasoning else 0, 0, 0),
        assistant_turns=2,
        turns_with_reasoning=2 if reasoning else 0,
        boot_id="b00t",
        seconds=1.5,
    )


def failed(row: PromptRow, reason: Reason = Reason.PROVIDER_ERROR) -> PromptResult:
    """A prompt that the provider let down."""
    return replace(answered(row), outcome=Outcome.FAILED, reason=reason, message="502 bad gateway")


@dataclass
class Run:
    """One BatchRun over a store, and what its agent was asked."""

    store: ObjectStore
    workdir: Path
    spec: dict[str, Any] = field(default_factory=dict)
    owner: Owner = field(default_factory=Owner)
    agent: Agent = answered
    asked: list[str] = field(default_factory=list)
    """Prompts that cost model calls, in order."""
    ids: Iterator[int] = field(default_factory=itertools.count)

    def settings(self) -> RunSettings:
        spec = {"batchSize": 3, "dataset": {"inline": "-"}, **self.spec}
        return RunSettings(spec=BatchRunSpec.model_validate(spec), run_name="first_run", owner=self.owner)

    def plan(self, rows: Iterable[Mapping[str, Any] | str] | str, plan_id: str | None = None) -> PlanOutcome:
        text = rows if isinstance(rows, str) else jsonl(rows)
        return make_plan(
            self.settings(), self.store, text_source(text), plan_id or f"p{next(self.ids)}", clock=lambda: 1000.0
        )

    def recorder(self, outcome: PlanOutcome, batch: PlannedBatch, writer: str | None = None) -> BatchRecorder:
        return BatchRecorder(
            self.store,
            batch=batch.number,
            writer=writer or f"w{next(self.ids)}",
            run_name="first_run",
            config_digest=outcome.config_digest,
            filters=self.settings().spec.filters,
            samples_per_prompt=self.settings().spec.samples_per_prompt,
            clock=lambda: 2000.0,
        )

    def work(self, outcome: PlanOutcome, batch: PlannedBatch, *, finish: bool = True) -> BatchRecorder:
        """The batch step: every prompt that has no stored end yet."""
        recorder = self.recorder(outcome, batch)
        for row in batch_rows(self.store, outcome.plan.plan_id, batch):
            if row.key not in recorder.ends():
                recorder.mark_started(row)
                self.asked.append(row.prompt)
                record(recorder, row, self.agent(row), batch.number, outcome.config_digest)
        if finish:
            recorder.finish()
        return recorder

    def run(self, rows: Iterable[Mapping[str, Any] | str] | str) -> Merged:
        """Plan, batches and merge."""
        outcome = self.plan(rows)
        for batch in outcome.plan.batches:
            self.work(outcome, batch)
        return self.merge(outcome)

    def merge(self, outcome: PlanOutcome) -> Merged:
        self.workdir.mkdir(exist_ok=True)
        return merge(self.settings(), self.store, outcome.plan.plan_id, self.workdir, clock=lambda: 3000.0)

    def rows(self, key: str = "trajectories.jsonl") -> list[dict[str, Any]]:
        return [strict_json(line) for line in self.store.get(key).body.split(b"\n")[:-1]]

    def prompts(self, key: str = "trajectories.jsonl") -> list[str]:
        return [row["conversations"][0]["value"] for row in self.rows(key)]

    def json(self, key: str) -> Any:
        return strict_json(self.store.get(key).body)

    def keys(self, prefix: str = "") -> list[str]:
        return [item.key for item in self.store.listing(prefix)]

    def contents(self) -> dict[str, bytes]:
        return {key: self.store.get(key).body for key in self.keys()}


def record(recorder: BatchRecorder, row: PromptRow, result: PromptResult, batch: int, digest: str) -> None:
    """What the batch step does with a result."""
    final = recorder.filtered(result)
    line = to_row(
        row, final, batch_number=batch, timestamp="2026-01-01T00:00:00.000000+00:00", model="m", config_digest=digest
    )
    recorder.record(row, final, line, unfiltered=result)


def strict_json(text: bytes) -> Any:
    """Parse, refusing what JSON has not and half surrogates."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} in JSON")

    value = json.loads(text.decode(), parse_constant=refuse)
    json.dumps(value, ensure_ascii=False).encode()
    return value


def reference_rows(prompts: Sequence[str], start: int = 0, **fields: Any) -> str:
    """A batch file as the reference writes it: no key, no outcome, naive times, spaces after colons."""
    lines = []
    for number, prompt in enumerate(prompts, start):
        row = {
            "prompt_index": number,
            "conversations": [
                {"from": "system", "value": "You are a function calling AI model."},
                {"from": "human", "value": prompt},
                {"from": "gpt", "value": "<think>\nhm\n</think>\nold answer"},
            ],
            "metadata": {"batch_num": 0, "timestamp": "2025-06-01T12:00:00.123456", "model": "old/model"},
            "completed": True,
            "partial": False,
            "api_calls": 1,
            "toolsets_used": ["terminal"],
            "tool_stats": {"terminal": {"count": 2, "success": 1, "failure": 1}},
            "tool_error_counts": {"terminal": 1},
            **fields,
        }
        lines.append(json.dumps(row, ensure_ascii=False))
    return "".join(line + "\n" for line in lines)


class Wrapper:
    """Passes everything on to a real store."""

    def __init__(self, inner: ObjectStore) -> None:
        self.inner = inner

    @property
    def place(self) -> str:
        return self.inner.place

    @property
    def reads_at_once(self) -> int:
        return 3

    def get(self, key: str) -> Stored:
        return self.inner.get(key)

    def get_range(self, key: str, offset: int, length_bytes: int) -> bytes:
        return self.inner.get_range(key, offset, length_bytes)

    def read_into(self, key: str, offset: int, buffer: memoryview) -> None:
        self.inner.read_into(key, offset, buffer)

    def head(self, key: str) -> Listed | None:
        return self.inner.head(key)

    def listing(self, prefix: str = "") -> Iterator[Listed]:
        return self.inner.listing(prefix)

    def download(self, key: str, path: Path) -> None:
        self.inner.download(key, path)

    def honours_conditions(self) -> bool:
        return self.inner.honours_conditions()

    def sweep(self) -> None:
        self.inner.sweep()

    def before_write(self, key: str) -> None:
        """Called before every change of the store."""

    def put(
        self, key: str, body: bytes, *, if_match: str | None = None, if_none_match: bool = False, durable: bool = True
    ) -> str:
        self.before_write(key)
        return self.inner.put(key, body, if_match=if_match, if_none_match=if_none_match, durable=durable)

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.before_write(key)
            self.inner.delete([key])

    def upload(
        self,
        path: Path,
        key: str,
        *,
        if_match: str | None = None,
        if_none_match: bool = False,
        consume: bool = False,
        durable: bool = True,
    ) -> str:
        self.before_write(key)
        return self.inner.upload(
            path, key, if_match=if_match, if_none_match=if_none_match, consume=consume, durable=durable
        )


class DyingStore(Wrapper):
    """The process is killed at the n-th change of the store (from 0)."""

    def __init__(self, inner: ObjectStore, lives: int) -> None:
        super().__init__(inner)
        self.lives = lives

    def before_write(self, key: str) -> None:
        if self.lives == 0:
            raise Killed
        self.lives -= 1


class CarelessStore(Wrapper):
    """A store that takes conditions and ignores them."""

    def put(
        self, key: str, body: bytes, *, if_match: str | None = None, if_none_match: bool = False, durable: bool = True
    ) -> str:
        self.before_write(key)
        return self.inner.put(key, body)

    def upload(
        self,
        path: Path,
        key: str,
        *,
        if_match: str | None = None,
        if_none_match: bool = False,
        consume: bool = False,
        durable: bool = True,
    ) -> str:
        self.before_write(key)
        return self.inner.upload(path, key, consume=consume, durable=durable)

    def honours_conditions(self) -> bool:
        return False


class HookedStore(Wrapper):
    """Runs something once, just before the first change of a key: somebody else who is faster."""

    def __init__(self, inner: ObjectStore, key: str, action: Callable[[], None]) -> None:
        super().__init__(inner)
        self._key = key
        self._action: Callable[[], None] | None = action
        self.is_used = False

    def before_write(self, key: str) -> None:
        if key == self._key and self._action is not None:
            action, self._action = self._action, None
            self.is_used = True
            action()
