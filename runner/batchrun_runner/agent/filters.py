"""Quality filters at the end of a prompt. The merge applies them again from the ledger, so changing one is free."""

from dataclasses import replace

from batchrun_api.outcomes import Outcome, Reason
from batchrun_api.spec.run import Filters
from batchrun_runner.records import PromptResult

_FILTERED = frozenset({Outcome.COMPLETED, Outcome.TRUNCATED})


def apply_filters(result: PromptResult, filters: Filters) -> PromptResult:
    """The result, or the same as discarded/NoReasoning when no assistant turn has reasoning and the filter is on."""
    if filters.require_reasoning and result.outcome in _FILTERED and result.turns_with_reasoning == 0:
        return replace(
            result,
            outcome=Outcome.DISCARDED,
            reason=Reason.NO_REASONING,
            message=f"none of {result.assistant_turns} assistant turns has reasoning",
        )
    return result
