"""The wire against llama.cpp's real server. The model is noise, so this tells of the wire and not of the wit."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from tests.cluster.harness.evidence import assert_every_prompt_once, assert_figures_add_up
from tests.contract.local.support import Workplace, environment

pytestmark = pytest.mark.timeout(300)
PROMPTS = [{"id": f"p{number}", "prompt": f"Say something about the number {number}."} for number in range(20)]
TINY: dict[str, Any] = {"name": "tiny", "server": "Other"}
FORCED = {"tool_choice": {"type": "function", "function": {"name": "read_file"}}}


@pytest.fixture
def place(tmp_path: Any) -> Workplace:
    workplace = Workplace(tmp_path)
    workplace.prompts(PROMPTS)
    return workplace


def run(place: Workplace, engine: str, model: dict[str, Any], **spec: Any) -> list[dict[str, Any]]:
    """The rows of a whole run, which must have gone well as far as we are concerned."""
    place.spec(
        model={**TINY, "baseURL": engine, **model},
        distribution={"file": 100},
        filters={"requireReasoning": False, "unknownTools": "Keep"},
        batchSize=10,
        **spec,
    )
    done = place.run("--sandbox", "process", environ=environment())
    assert "Traceback" not in done.stdout + done.stderr
    assert done.stderr == ""
    rows = place.rows()
    assert_every_prompt_once(rows, PROMPTS)
    assert_figures_add_up(place.statistics(), rows)
    assert done.returncode == int(any(row["outcome"] == "failed" for row in rows))
    assert all(row["usage"]["prompt_tokens"] > 0 and row["usage"]["calls_without_usage"] == 0 for row in rows)
    return rows


def reasons(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(row["reason"] or row["outcome"] for row in rows)


def test_free_text_ends_where_the_server_ends_it(place: Workplace, engine: str) -> None:
    """At one of the stop texts, or at the limit of tokens: then it is no answer."""
    rows = run(place, engine, {"maxTokens": 200, "sampling": {"stop": ["a", "e", " ", "\n"], "seed": 1}})
    found = reasons(rows)
    assert set(found) <= {"completed", "TruncatedReply", "EmptyReply"}
    assert found["completed"] > 0
    assert all(row["conversations"][-1]["value"] for row in rows if row["outcome"] == "completed")


def test_free_text_that_is_cut_is_no_answer_and_is_kept(place: Workplace, engine: str) -> None:
    rows = run(place, engine, {"maxTokens": 3, "sampling": {"seed": 1}})
    found = reasons(rows)
    assert set(found) <= {"completed", "TruncatedReply", "EmptyReply"}
    assert found["TruncatedReply"] >= 10


def test_forced_calls_that_are_cut_come_as_tool_calls_and_are_never_run(place: Workplace, engine: str) -> None:
    rows = run(place, engine, {"maxTokens": 24, "extraBody": FORCED, "sampling": {"seed": 1}})
    cut = [row for row in rows if row["reason"] == "InvalidToolCalls"]
    assert len(cut) >= 15, reasons(rows)
    for row in cut:
        assert row["partial"] is True
        asked = [turn for turn in row["conversations"] if turn["from"] == "gpt"]
        assert len(asked) == 3
        for turn in asked:
            [call] = turn["tool_calls"]
            assert call["function"]["name"] == "read_file"
            assert list(json.loads(call["function"]["arguments"])) == ["unparsed_arguments"]
        assert row["tool_stats"]["read_file"] == {"count": 3, "success": 0, "failure": 3}
