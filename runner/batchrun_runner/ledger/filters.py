"""Quality filters: what a stored end becomes under the filters of today. A changed filter needs no model call."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Protocol

import orjson

from batchrun_api.outcomes import Outcome, Reason
from batchrun_api.spec.run import Filters
from batchrun_api.toolsets import ALL_TOOLS
from batchrun_runner.records import PromptResult

_FILTERED = frozenset({Outcome.COMPLETED, Outcome.TRUNCATED})


class Judged(Protocol):
    """What the filters look at."""

    @property
    def outcome(self) -> Outcome: ...
    @property
    def reason(self) -> str: ...
    @property
    def unfiltered_outcome(self) -> Outcome | None: ...
    @property
    def unfiltered_reason(self) -> str: ...
    @property
    def has_reasoning(self) -> bool: ...
    @property
    def has_unknown_tools(self) -> bool: ...


def has_reasoning(result: PromptResult) -> bool:
    """Whether any assistant turn has reasoning, as text or as tokens in the usage."""
    return result.turns_with_reasoning > 0 or result.usage.reasoning_tokens > 0


def filtered(result: PromptResult, filters: Filters) -> PromptResult:
    """The result under the filters, as `judge` will have it at the merge: all figures of a run agree."""
    if result.outcome not in _FILTERED:
        return result
    if filters.unknown_tools == "Drop" and calls_unknown_tools(result.conversations, result.tools):
        return replace(result, outcome=Outcome.DISCARDED, reason=Reason.UNKNOWN_TOOLS)
    if filters.require_reasoning and not has_reasoning(result):
        return replace(result, outcome=Outcome.DISCARDED, reason=Reason.NO_REASONING)
    return result


def judge(stored: Judged, filters: Filters) -> tuple[Outcome, str]:
    """Outcome and reason of a stored row under these filters. A failed prompt stays failed."""
    outcome = stored.unfiltered_outcome or stored.outcome
    reason = stored.unfiltered_reason if stored.unfiltered_outcome else stored.reason
    if outcome not in _FILTERED:
        return outcome, reason
    if filters.unknown_tools == "Drop" and stored.has_unknown_tools:
        return Outcome.DISCARDED, Reason.UNKNOWN_TOOLS.value
    if filters.require_reasoning and not stored.has_reasoning:
        return Outcome.DISCARDED, Reason.NO_REASONING.value
    return outcome, reason


def calls_unknown_tools(conversations: Iterable[Mapping[str, Any]], offered: str) -> bool:
    """Whether any turn calls a tool outside the list of all tools and of the run's own that were offered.

    `offered`: the schemas of the offered tools, as rows have them in `tools`.
    """
    called = {call.get("function", {}).get("name") for turn in conversations for call in turn.get("tool_calls") or ()}
    unknown = called.difference(ALL_TOOLS)
    return bool(unknown) and not unknown <= {tool["function"]["name"] for tool in orjson.loads(offered)}
