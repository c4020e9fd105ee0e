"""The filter that acts while a run is going on."""

import pytest

from batchrun_api.outcomes import Outcome, Reason
from batchrun_api.spec.run import Filters
from batchrun_runner.ledger.filters import filtered
from batchrun_runner.records import PromptResult


@pytest.mark.parametrize("outcome", list(Outcome))
@pytest.mark.parametrize("turns", [0, 1])
@pytest.mark.parametrize("on", [True, False])
def test_only_done_prompts_without_any_reasoning_are_discarded(outcome: Outcome, turns: int, on: bool) -> None:
    result = PromptResult(outcome, assistant_turns=2, turns_with_reasoning=turns)
    kept = filtered(result, Filters(require_reasoning=on))
    if on and turns == 0 and outcome in {Outcome.COMPLETED, Outcome.TRUNCATED}:
        assert (kept.outcome, kept.reason) == (Outcome.DISCARDED, Reason.NO_REASONING)
    else:
        assert kept is result
