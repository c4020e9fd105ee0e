"""What the operator says of a spec that the schema of another version let through."""

from typing import Any

import pytest
from pydantic import ValidationError

from batchrun_api.spec.run import BatchRunSpec
from batchrun_operator.reconcile.validity import explain


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"distribution": {"terminal": 101}}, "spec.distribution.terminal: must be at most 100"),
        ({"output": {"s3": {}}}, "spec.output.s3.bucket: is required"),
        (
            {"sandbox": {"resources": {"limits": {"cpu": "x"}}}},
            "spec.sandbox.resources.limits.cpu: must be an amount such as 500m, 2 or 512Mi",
        ),
    ],
)
def test_a_mistake_is_named_by_the_path_that_the_user_wrote(spec: dict[str, Any], words: str) -> None:
    raw = {"dataset": {"inline": "-"}} | spec
    with pytest.raises(ValidationError) as raised:
        BatchRunSpec.model_validate(raw)
    assert explain(raised.value, raw) == words
