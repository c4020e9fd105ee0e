"""Whole runs of `batchrun local`, in this process, against the scripted faulty server over real HTTP."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.harness.evidence import (
    assert_every_prompt_once,
    assert_figures_add_up,
    requests_by_prompt,
)
from tests.cluster.harness.model import ModelServer
from tests.contract.local.support import Workplace

from batchrun_runner.local import run_local
from batchrun_runner.model import client
from batchrun_runner.model.policy import RetryPolicy

QUICK = RetryPolicy(
    first_wait_seconds=0.01,
    longest_wait_seconds=0.05,
    longest_rate_wait_seconds=0.05,
    hint_cap_seconds=1.0,
    outage_callers=1000,
)
"""The policy of every run, but nobody has time. Outages have tests of their own."""

OK = {"content": "fine"}
KEEP = {"requireReasoning": False, "unknownTools": "Keep"}
Turns = Sequence[Any]


def call(arguments: Any, name: str = "terminal", **more: Any) -> dict[str, Any]:
    """One raw call, as a server sends it."""
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def calls(*made: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """A turn with these raw calls."""
    return {"message": {"tool_calls": list(made)}, **fields}


def command(line: str) -> dict[str, Any]:
    """A turn that runs a command."""
    return {"tool_calls": [{"name": "terminal", "arguments": {"command": line}}]}


@dataclass
class Played:
    """What came of a run."""

    code: int
    out: str
    err: str
    rows: dict[str, dict[str, Any]]
    """By id."""
    statistics: dict[str, Any]
    requests: dict[str, list[dict[str, Any]]]
    """Request bodies by id of the prompt."""

    def verdict(self, name: str) -> tuple[str, str]:
        """Outcome and reason of a prompt."""
        return self.rows[name]["outcome"], self.rows[name]["reason"]

    def said(self, name: str, role: str) -> list[str]:
        """The values of a prompt's turns of one role."""
        return [turn["value"] for turn in self.rows[name]["conversations"] if turn["from"] == role]

    def answer(self, name: str) -> str:
        """The last turn of a prompt."""
        return str(self.rows[name]["conversations"][-1]["value"])

    def tool_messages(self, name: str) -> list[dict[str, Any]]:
        """The tool messages of a prompt's last request."""
        return [message for message in self.requests[name][-1]["messages"] if message["role"] == "tool"]


@dataclass
class Stage:
    """Plays prompts with scripts of their own, between two that the server answers well."""

    place: Workplace
    model: ModelServer
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    caplog: pytest.LogCaptureFixture
    policy: RetryPolicy = QUICK
    environ: dict[str, str] = field(default_factory=dict)

    def play(self, prompts: Mapping[str, Turns], *, whole: bool = True, in_prompt: bool = True, **spec: Any) -> Played:
        """Run the prompts as one batch. `whole`: every prompt must end, and the good ones well.

        `in_prompt`: turns stand in the prompts; words of an error that are to count must not: they are an echo.
        """
        rows = [{"id": "good-1", "prompt": "A good one."}]
        rows += [
            {"id": name, "prompt": f"Prompt {name}.\n" + (f"```demo\n{json.dumps(turns)}\n```" if in_prompt else "")}
            for name, turns in prompts.items()
        ]
        if not in_prompt:
            self.model.play(
                [{"match": f"Prompt {re.escape(name)}\\.", "turns": list(prompts[name])} for name in prompts]
            )
        rows.append({"id": "good-2", "prompt": "Another good one."})
        played = self.run(rows, **spec)
        if whole:
            self._check(played, rows)
        return played

    def run(self, rows: Sequence[Mapping[str, Any]], **spec: Any) -> Played:
        """The run, whatever comes of it."""
        self.place.prompts(rows)
        model = {"name": "demo/scripted", "baseURL": self.model.base_url, **spec.pop("model", {})}
        base: dict[str, Any] = {"batchSize": max(2, min(100, len(rows))), "promptsPerPod": 2, "numWorkers": 1}
        self.place.spec(**{**base, "model": model, "filters": KEEP, **spec})
        self.monkeypatch.setattr(client, "POLICY", self.policy)
        for name, value in self.environ.items():
            self.monkeypatch.setenv(name, value)
        seen = len(self.model.bodies)
        self.monkeypatch.chdir(self.place.folder)
        code = run_local(Path("run.yaml"), Path("out"), "process")
        out, err = self.capsys.readouterr()
        bodies = self.model.bodies[seen:]
        by_prompt = {row["prompt"]: row.get("id", "") for row in rows}
        requests: dict[str, list[dict[str, Any]]] = {str(name): [] for name in by_prompt.values()}
        for body in bodies:
            [prompt] = [text for text in requests_by_prompt([body]) if text in by_prompt] or [""]
            requests.setdefault(str(by_prompt.get(prompt, "")), []).append(body)
        stored = self.place.rows() if (self.place.result / "trajectories.jsonl").exists() else []
        statistics = self.place.statistics() if (self.place.result / "statistics.json").exists() else {}
        return Played(code, out, err, {row["id"]: row for row in stored}, statistics, requests)

    def _check(self, played: Played, rows: Sequence[Mapping[str, Any]]) -> None:
        assert "Traceback" not in played.out + played.err
        assert played.err == ""
        assert [record.getMessage() for record in self.caplog.records if record.levelno >= logging.WARNING] == []
        assert_every_prompt_once(self.place.rows(), rows)
        assert_figures_add_up(played.statistics, self.place.rows())
        for name in ("good-1", "good-2"):
            assert played.verdict(name) == ("completed", ""), "another prompt was touched"
            assert len(played.requests[name]) == played.rows[name]["api_calls"], "it was asked twice"
        failed = [row for row in played.rows.values() if row["outcome"] == "failed"]
        assert played.code == (1 if failed else 0)

    def quicker(self, **changes: Any) -> None:
        """Change the policy."""
        self.policy = replace(self.policy, **changes)
