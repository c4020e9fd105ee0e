"""Ranges, quantities, settings, plan ids, validity, and reading Kubernetes' JSON."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.operator.builders import NOW, raw_spec

from batchrun_api.conditions import Reason
from batchrun_api.quantities import format_bytes, format_cpu, parse_quantity
from batchrun_operator.manifests.meta import Role
from batchrun_operator.reconcile.conditions import parse_timestamp, timestamp
from batchrun_operator.reconcile.observed import Running, Terminated, Waiting
from batchrun_operator.reconcile.ranges import format_ranges, parse_ranges
from batchrun_operator.reconcile.timers import FirstSeen
from batchrun_operator.reconcile.views import read_jobs, read_pods, read_run
from batchrun_operator.settings import SettingsInvalid, from_environ


@given(st.sets(st.integers(0, 10_000)))
def test_ranges_are_inverse(numbers: set[int]) -> None:
    assert parse_ranges(format_ranges(numbers)) == numbers


def test_ranges_are_short() -> None:
    assert format_ranges([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"
    assert format_ranges([]) == ""


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("250m", "0.25"),
        ("1", "1"),
        (2, "2"),
        ("0.5", "0.5"),
        ("1Gi", "1073741824"),
        ("1k", "1000"),
        ("512Ki", "524288"),
    ],
)
def test_quantities(text: str | int, amount: str) -> None:
    assert parse_quantity(text) == Decimal(amount)


@pytest.mark.parametrize("text", ["", "Gi", "1Q", "1mi", "one", "1ki"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        parse_quantity(text)


def test_quantities_round_up() -> None:
    assert format_cpu(Decimal("0.0001")) == "1m"
    assert format_bytes(Decimal("1000.5")) == "1001"
    assert format_bytes(Decimal(2**30)) == "1024Mi"


def test_settings_come_from_the_environment() -> None:
    settings = from_environ(
        {
            "BATCHRUN_RUNNER_IMAGE": "r:1",
            "BATCHRUN_RUNNER_IMAGE_PULL_POLICY": "Never",
            "BATCHRUN_NAMESPACES": "a, b",
            "BATCHRUN_RUNNER_RESOURCES": '{"requests": {"cpu": "1"}}',
            "BATCHRUN_MAX_ATTEMPTS": "3",
            "BATCHRUN_LOG_LEVEL": "debug",
        }
    )
    assert settings.namespaces == ("a", "b")
    assert settings.pods.runner_image_pull_policy == "Never"
    assert settings.pods.runner_resources.requests.cpu == "1"
    assert settings.limits.max_attempts == 3
    assert settings.log_level == "DEBUG"
    assert from_environ({"BATCHRUN_RUNNER_IMAGE": "r:1", "BATCHRUN_RUNNER_IMAGE_PULL_POLICY": ""}).namespaces == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BATCHRUN_RUNNER_IMAGE", ""),
        ("BATCHRUN_RUNNER_IMAGE_PULL_POLICY", "Sometimes"),
        ("BATCHRUN_RESYNC_SECONDS", "soon"),
        ("BATCHRUN_RESYNC_SECONDS", "0"),
        ("BATCHRUN_MAX_ATTEMPTS", "0"),
        ("BATCHRUN_BLOCKED_RANGES", "10.0.0.0/8,everything"),
        ("BATCHRUN_BLOCKED_RANGES", "10.0.0.1/8"),
        ("BATCHRUN_RUNNER_RESOURCES", "{"),
        ("BATCHRUN_RUNNER_RESOURCES", '{"requests": {"gpu": 1}}'),
    ],
)
def test_a_wrong_setting_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsInvalid, match=name):
        from_environ({"BATCHRUN_RUNNER_IMAGE": "r:1", name: value})


# ---- plan ids ----


def raw_run(annotations: dict[str, str] | None = None, status: Any = None, **fields: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "demo", "namespace": "ns", "uid": "u", "generation": 4, "annotations": annotations},
        "spec": raw_spec(**fields),
        "status": status,
    }


BASE_ID = read_run(raw_run()).plan_id


@pytest.mark.parametrize(
    "fields",
    [{"numWorkers": 9}, {"suspend": True}, {"ttlSecondsAfterFinished": 1}, {"logging": {"level": "debug"}}],
)
def test_live_fields_do_not_plan_again(fields: dict[str, Any]) -> None:
    assert read_run(raw_run(**fields)).plan_id == BASE_ID


@pytest.mark.parametrize(
    "fields", [{"maxSamples": 3}, {"batchSize": 2}, {"agent": {"maxTurns": 2}}, {"resumePolicy": "Force"}]
)
def test_other_fields_plan_again(fields: dict[str, Any]) -> None:
    assert read_run(raw_run(**fields)).plan_id != BASE_ID


def test_the_retry_annotation_plans_again() -> None:
    first = read_run(raw_run({"batchrun.dev/retry": "1"})).plan_id
    assert len({BASE_ID, first, read_run(raw_run({"batchrun.dev/retry": "2"})).plan_id}) == 3


def test_a_default_that_the_api_server_fills_in_does_not_plan_again() -> None:
    filled: dict[str, Any] = {
        "batchSize": 10,
        "model": {"name": "anthropic/claude-sonnet-4.6"},
        "filters": {"requireReasoning": True},
    }
    assert read_run(raw_run(**filled)).plan_id == BASE_ID


def test_an_invalid_spec_is_told_by_field_and_without_its_values() -> None:
    run = read_run(raw_run(batchSize=0, model={"baseURL": "ftp://user:secret@host"}))
    assert run.spec is None
    assert "spec.batchSize" in run.spec_error
    assert "secret" not in run.spec_error
    assert run.plan_id not in ("", BASE_ID)


def test_d12_a_status_of_another_version_is_none() -> None:
    assert read_run(raw_run(status={"kopf": {"progress": {}}, "phase": "Running"})).status.phase == ""
    assert read_run(raw_run(status={"phase": "Running"})).status.phase == "Running"


# ---- what the schema lets through ----


def test_what_the_schema_cannot_see_is_refused_with_its_place_and_reason() -> None:
    unknown = read_run(raw_run(distribution="nonsense"))
    missing = read_run(raw_run(distribution="terminal_web"))

    assert (unknown.spec, unknown.spec_error_reason) == (None, Reason.INVALID_SPEC)
    assert "spec.distribution: there is no distribution 'nonsense'" in unknown.spec_error
    assert (missing.spec, missing.spec_error_reason) == (None, Reason.TOOLSET_UNAVAILABLE)


# ---- Kubernetes' JSON ----

LABELS = {
    "batchrun.dev/role": "batch",
    "batchrun.dev/plan": "p",
    "batchrun.dev/batch": "3",
    "batchrun.dev/attempt": "2",
}


def test_pods_and_jobs_without_our_labels_are_not_ours() -> None:
    for labels in (None, {}, {**LABELS, "batchrun.dev/attempt": "x"}, {**LABELS, "batchrun.dev/role": "y"}):
        raw = {"metadata": {"name": "x", "uid": "u", "labels": labels}, "spec": {"containers": []}}
        assert read_jobs([raw]) == ()
        assert read_pods([raw]) == ()


def test_a_pod_without_status_is_pending() -> None:
    raw = {"metadata": {"name": "x", "uid": "u", "labels": LABELS}, "spec": {"containers": [{"name": "runner"}]}}
    (pod,) = read_pods([raw])
    assert (pod.role, pod.batch, pod.attempt, pod.phase) == (Role.BATCH, 3, 2, "Pending")
    assert pod.containers[0].state == Waiting("")


def test_container_states_are_read() -> None:
    statuses: list[dict[str, Any]] = [
        {"name": "runner", "state": {"running": {}}, "restartCount": 2, "lastState": {"terminated": {"exitCode": 137}}},
        {"name": "sandbox-0", "state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}},
        {"name": "sandbox-1", "state": {"terminated": {"exitCode": 0, "message": "completed"}}},
    ]
    raw = {
        "metadata": {"name": "x", "uid": "u", "labels": LABELS, "deletionTimestamp": "now"},
        "spec": {"containers": [{"name": item["name"], "image": "i"} for item in statuses]},
        "status": {
            "phase": "Failed",
            "reason": "Evicted",
            "containerStatuses": statuses,
            "conditions": [{"type": "PodScheduled", "status": "False", "message": "no nodes"}],
        },
    }
    (pod,) = read_pods([raw])
    assert [type(item.state) for item in pod.containers] == [Running, Waiting, Terminated]
    assert pod.containers[0].last == Terminated(137)
    assert (pod.leaving, pod.end, pod.unschedulable, pod.over) == (True, "Evicted", "no nodes", True)


def test_a_job_is_read() -> None:
    raw = {
        "metadata": {"name": "x", "uid": "u", "labels": LABELS},
        "spec": {"suspend": True},
        "status": {"failed": 2, "conditions": [{"type": "Complete", "status": "True"}]},
    }
    (job,) = read_jobs([raw])
    assert (job.suspended, job.finished, job.failed_pods, job.leaving) == (True, True, 2, False)


# ---- time ----


def test_first_seen_forgets_what_is_gone() -> None:
    seen = FirstSeen()
    assert seen.update({"a"}, NOW) == {"a": NOW}
    later = NOW + timedelta(seconds=5)
    assert seen.update({"a", "b"}, later) == {"a": NOW, "b": later}
    assert seen.update(set(), later) == {}
    assert seen.update({"a"}, later) == {"a": later}


@given(st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC)))
def test_timestamps_are_inverse_to_the_second(moment: datetime) -> None:
    assert parse_timestamp(timestamp(moment)) == moment.replace(microsecond=0)


def test_what_is_no_timestamp_is_none() -> None:
    assert parse_timestamp("yesterday") is None
    assert parse_timestamp(None) is None
