"""What a batch pod says on its log."""

import pytest

from batchrun_api.hints import ModelHint
from batchrun_api.outcomes import Reason
from batchrun_runner.model.gate import Standstill
from batchrun_runner.pod.logs import log_standstill


@pytest.mark.parametrize(
    ("reason", "told"),
    [(Reason.RATE_LIMITED, "RateLimited"), (Reason.PROVIDER_ERROR, "ModelUnavailable"), (None, "")],
)
def test_a_standstill_is_a_hint_for_the_operator_whatever_the_log_level(
    reason: Reason | None, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    log_standstill(Standstill(reason, "HTTP 429: " + "x" * 1000, 12.0))
    hint = ModelHint.newest(capsys.readouterr().out)
    assert hint is not None
    assert hint.reason == told
    assert len(hint.message) == 400
