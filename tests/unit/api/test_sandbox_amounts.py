"""Amounts of the spec's own sandboxes, judged before any Job is made of them."""

from typing import Any

import pytest

from batchrun_api.checks import spec_problems
from batchrun_api.spec import BatchRunSpec


def said(**resources: Any) -> list[str]:
    document = {"dataset": {"inline": "{}"}, "distribution": "terminal_only", "sandbox": {"resources": resources}}
    spec = BatchRunSpec.model_validate(document)
    return [f"{'.'.join(item.path)} {item.message}" for item in spec_problems(spec, for_cluster=False)]


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"memory": 5}, "sandbox.resources.limits.memory is 5, less than 16Mi"),
        ({"memory": "1m"}, "sandbox.resources.limits.memory is 1m, less than 16Mi"),
        ({"memory": "0"}, "sandbox.resources.limits.memory is 0, less than 16Mi"),
        ({"cpu": "0"}, "sandbox.resources.limits.cpu is 0, less than 10m"),
        ({"ephemeral-storage": 1}, "sandbox.resources.limits.ephemeral-storage is 1, less than 1Mi"),
    ],
)
def test_limits_with_which_no_sandbox_runs_are_refused_by_field(limits: dict[str, Any], words: str) -> None:
    (problem,) = said(limits=limits)
    assert problem.startswith(words)


def test_a_request_above_its_limit_is_refused_by_field_and_fix() -> None:
    (problem,) = said(requests={"memory": "2Gi"}, limits={"memory": "1Gi"})
    assert problem == (
        "sandbox.resources.requests.memory is 2Gi, more than the limit of 1Gi: lower it, or raise the limit"
    )


def test_amounts_that_fit_and_those_without_a_limit_are_taken() -> None:
    assert said(requests={"memory": "1Gi", "cpu": "8"}, limits={"memory": "1024Mi"}) == []
