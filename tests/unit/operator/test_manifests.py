"""Golden manifests, and what must hold of them whatever they look like.

`BATCHRUN_UPDATE_GOLDEN=1 python -m pytest tests/unit/operator/test_manifests.py` writes the golden files anew.
"""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.operator.builders import PLAN_ID, RUNNER_IMAGE, plan, subject

from batchrun_api import names
from batchrun_api.messages import Signals
from batchrun_api.outcomes import Reason
from batchrun_api.own_container import OwnAmounts, OwnContainer
from batchrun_api.plan import Plan, PlanCounts, PlannedBatch
from batchrun_operator.manifests import batch_job, config_map, merge_job, network_policy, plan_job, plan_shards
from batchrun_operator.manifests.images import is_image_reference, is_same_image
from batchrun_operator.manifests.network_policy import Address, ServicePods, Surroundings
from batchrun_operator.manifests.plan_shards import (
    SHARD_LIMIT_BYTES,
    ShardsDamaged,
    read_shards,
    shard_count,
)
from batchrun_operator.settings import PodSettings

WITH_RANGES = PodSettings(runner_image=RUNNER_IMAGE, blocked_ranges=("203.0.113.0/24", "2001:db8:7::/48"))
AROUND = Surroundings(
    servers=(
        Address("10.1.2.3", 8000),
        Address("203.0.113.9", 7070),
        Address("198.51.100.1", 443),  # public, so it needs no rule of its own
        Address("fd00::5", 9000),
        ServicePods("models", (("app", "vllm"), ("tier", "gpu")), "http"),
    ),
    api_server=("10.96.0.1", "198.51.100.77"),
)

GOLDEN = Path(__file__).parents[2] / "golden" / "manifests"

CLAIM = {"persistentVolumeClaim": {"claimName": "prompts", "path": "sets/prompts.jsonl"}}
EVERYTHING: dict[str, Any] = {
    "runName": "my_first_run",
    "dataset": {"configMapKeyRef": {"name": "prompts", "key": "prompts.jsonl"}},
    "output": {"s3": {"bucket": "results", "credentialsSecretRef": {"name": "store"}}},
    "model": {"apiKeySecretRef": {"name": "model", "key": "api-key"}},
    "agent": {
        "ephemeralSystemPrompt": "Be brief. $(HOME) costs $5.",
        "prefillMessagesFrom": {"configMapKeyRef": {"name": "few-shot", "key": "messages"}},
    },
    "promptsPerPod": 2,
    "sandbox": {
        "imagePullPolicy": "IfNotPresent",
        "resources": {
            "requests": {"cpu": "250m", "memory": "512Mi"},
            "limits": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "2Gi"},
        },
    },
    "podTemplate": {
        "labels": {"team": "blue", "batchrun.dev/run": "forged"},
        "annotations": {"note": "hello", "batchrun.dev/signals": "forged"},
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "priorityClassName": "low",
        "runtimeClassName": "gvisor",
        "imagePullSecrets": [{"name": "registry"}],
        "serviceAccountName": "trajectories",
    },
}


def mixed_plan() -> Plan:
    """Three prompts: the default image; image, user and memory of its own; and one that can be no image."""
    return Plan(
        plan_id=PLAN_ID,
        counts=PlanCounts(total=3, done=0, to_run=3),
        images=["docker.io/library/rust:1.75", "Bad Image:Tag "],
        containers=[OwnContainer(user="1000:1000", limits=OwnAmounts(memory="512Mi"))],
        batches=[PlannedBatch(number=7, offset=10, length=90, images=[-1, 0, 1], containers=[-1, 0, -1])],
    )


def manifests() -> dict[str, Any]:
    full = subject(**EVERYTHING)
    return {
        "plan-job": plan_job(full, 1),
        "batch-job": batch_job(full, mixed_plan(), mixed_plan().batches[0], 2),
        "merge-job": merge_job(full, 1),
        "config": config_map(full),
        "plan-job-claim": plan_job(subject(dataset=CLAIM), 1),
        "network-policy": network_policy(replace(full, pods=WITH_RANGES), AROUND),
        "batch-job-small": batch_job(subject(), plan(1), plan(1).batches[0], 1),
    }


def test_a_claim_is_mounted_read_only_into_the_plan_pod_alone() -> None:
    with_claim = subject(dataset=CLAIM)
    source = {"claimName": "prompts", "readOnly": True}
    pod = plan_job(with_claim, 1)["spec"]["template"]["spec"]
    assert [volume["name"] for volume in pod["volumes"] if volume.get("persistentVolumeClaim") == source] == ["dataset"]
    (container,) = pod["containers"]
    assert [mount for mount in container["volumeMounts"] if mount["name"] == "dataset"] == [
        {"name": "dataset", "mountPath": names.DATASET_VOLUME_DIR, "readOnly": True}
    ]
    for other in (batch_job(with_claim, plan(1), plan(1).batches[0], 1), merge_job(with_claim, 1)):
        assert "persistentVolumeClaim" not in json.dumps(other)


@pytest.mark.parametrize("name", manifests())
def test_manifest_is_as_recorded(name: str) -> None:
    file = GOLDEN / f"{name}.yaml"
    text = yaml.safe_dump(manifests()[name], sort_keys=False, width=120)
    if os.environ.get("BATCHRUN_UPDATE_GOLDEN"):
        file.write_text(text)
    assert file.read_text() == text


def pods_of_all_jobs() -> list[dict[str, Any]]:
    return [job["spec"]["template"]["spec"] for name, job in manifests().items() if job["kind"] == "Job"]


def containers_of(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod["containers"], *pod.get("initContainers", [])]


def sandboxes_of(pod: dict[str, Any]) -> list[dict[str, Any]]:
    return [item for item in pod["containers"] if item["name"] != names.RUNNER_CONTAINER]


def test_no_pod_has_a_kubernetes_credential() -> None:
    for pod in pods_of_all_jobs():
        assert pod["automountServiceAccountToken"] is False
        assert not any("projected" in volume for volume in pod["volumes"])


def test_no_sandbox_has_an_environment() -> None:
    for pod in pods_of_all_jobs():
        for container in [*sandboxes_of(pod), *pod.get("initContainers", [])]:
            assert "env" not in container
            assert "envFrom" not in container


def test_sandboxes_mount_only_what_is_theirs() -> None:
    pod = manifests()["batch-job"]["spec"]["template"]["spec"]
    for index, container in enumerate(sandboxes_of(pod)):
        mounted = {item["name"] for item in container["volumeMounts"]}
        assert mounted == {"helper", f"socket-{index}", f"shm-{index}"}
        writable = [item["mountPath"] for item in container["volumeMounts"] if not item.get("readOnly")]
        assert writable == ["/dev/shm"]


def test_hosts_and_resolv_conf_are_read_only_copies_in_runner_and_sandboxes() -> None:
    pod = manifests()["batch-job"]["spec"]["template"]["spec"]
    for container in pod["containers"]:
        mounts = {item["mountPath"]: item for item in container["volumeMounts"]}
        for path in ("/etc/hosts", "/etc/resolv.conf"):
            assert mounts[path]["readOnly"] is True
            assert mounts[path]["subPath"] == path.rsplit("/", 1)[1]


def test_runner_containers_satisfy_pod_security_restricted() -> None:
    for pod in pods_of_all_jobs():
        for container in containers_of(pod):
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["seccompProfile"] == {"type": "RuntimeDefault"}
            if container["name"] in (names.RUNNER_CONTAINER, names.INSTALL_CONTAINER):
                assert security["runAsNonRoot"] is True
                assert security["readOnlyRootFilesystem"] is True
                assert security["capabilities"] == {"drop": ["ALL"]}


def test_sandboxes_meet_the_standard_that_the_run_names_and_install_always_the_strictest() -> None:
    for standard, more in (("Baseline", {}), ("Restricted", {"runAsNonRoot": True})):
        job = batch_job(subject(sandbox={"podSecurity": standard}), plan(2), plan(2).batches[0], 1)
        pod = job["spec"]["template"]["spec"]
        sandboxes = [c for c in pod["containers"] if c["name"] != names.RUNNER_CONTAINER]
        for container in sandboxes:
            dropped = ["ALL"] if standard == "Restricted" else ["NET_RAW"]
            assert (
                container["securityContext"]
                == {
                    "allowPrivilegeEscalation": False,
                    "capabilities": {"drop": dropped},
                    "seccompProfile": {"type": "RuntimeDefault"},
                }
                | more
            )
        assert pod["initContainers"][0]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_d05_every_container_carries_requests_and_limits_for_quotas() -> None:
    for pod in pods_of_all_jobs():
        for container in containers_of(pod):
            for part in ("requests", "limits"):
                assert {"cpu", "memory"} <= set(container["resources"][part]), container["name"]


def test_requests_count_for_the_prompts_at_work_and_not_for_all_of_the_batch() -> None:
    resources = {"requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    many = batch_job(subject(sandbox={"resources": resources}), plan(10), plan(10).batches[0], 1)
    pod = many["spec"]["template"]["spec"]
    assert pod["resources"]["requests"] == {"cpu": "350m", "memory": "768Mi"}
    assert pod["resources"]["limits"] == {"cpu": "2000m", "memory": f"{1024 + 1024 + 160}Mi"}
    assert all(item["resources"]["requests"]["cpu"] == "1m" for item in pod["containers"])


def test_disk_requests_of_sandboxes_do_not_default_to_their_limits() -> None:
    for container in sandboxes_of(manifests()["batch-job"]["spec"]["template"]["spec"]):
        assert container["resources"]["requests"]["ephemeral-storage"] == "1Mi"
        assert container["resources"]["limits"]["ephemeral-storage"] == "2Gi"


def test_the_ephemeral_prompt_is_in_no_config_map_and_arrives_unexpanded() -> None:
    everything = manifests()
    assert "Be brief" not in json.dumps(everything["config"])
    env = everything["batch-job"]["spec"]["template"]["spec"]["containers"][0]["env"]
    values = {item["name"]: item.get("value") for item in env}
    assert values[names.ENV_EPHEMERAL_SYSTEM_PROMPT] == "Be brief. $$(HOME) costs $$5."


def test_the_merge_has_no_model_key() -> None:
    def names_of(job: dict[str, Any]) -> set[str]:
        return {item["name"] for item in job["spec"]["template"]["spec"]["containers"][0]["env"]}

    assert names.ENV_API_KEY in names_of(manifests()["plan-job"])
    assert names.ENV_API_KEY not in names_of(manifests()["merge-job"])


def test_secrets_come_by_reference_with_the_session_token_optional() -> None:
    env = manifests()["plan-job"]["spec"]["template"]["spec"]["containers"][0]["env"]
    sources = {item["name"]: item["valueFrom"]["secretKeyRef"] for item in env if "valueFrom" in item}
    assert sources["AWS_ACCESS_KEY_ID"] == {"name": "store", "key": "AWS_ACCESS_KEY_ID"}
    assert sources["AWS_SESSION_TOKEN"]["optional"] is True
    assert sources[names.ENV_API_KEY] == {"name": "model", "key": "api-key"}


def test_keys_of_tools_come_by_reference_where_models_are_asked_and_nowhere_else() -> None:
    ref = {"name": "eyes", "key": "api-key"}
    tools = {"vision": {"model": {"name": "sees", "baseURL": "https://other/v1", "apiKeySecretRef": ref}}}
    run = subject(tools=tools)
    env = batch_job(run, plan(1), plan(1).batches[0], 1)["spec"]["template"]["spec"]["containers"][0]["env"]
    merge = merge_job(run, 1)["spec"]["template"]["spec"]["containers"][0]["env"]

    assert {"name": "BATCHRUN_TOOL_KEY_VISION", "valueFrom": {"secretKeyRef": ref}} in env
    assert "eyes" not in json.dumps(merge)


def test_credentials_of_the_data_set_travel_under_names_of_their_own() -> None:
    dataset = {"uri": "s3://other/x.jsonl", "s3": {"credentialsSecretRef": {"name": "data"}}}
    job = plan_job(subject(dataset=dataset), 1)
    env = {item["name"] for item in job["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert {"BATCHRUN_DATASET_AWS_ACCESS_KEY_ID", "BATCHRUN_DATASET_AWS_SECRET_ACCESS_KEY"} <= env
    assert "AWS_ACCESS_KEY_ID" not in env


def test_labels_of_ours_cannot_be_forged_by_the_pod_template() -> None:
    template = manifests()["batch-job"]["spec"]["template"]["metadata"]
    assert template["labels"][names.LABEL_RUN] == "demo"
    assert template["labels"]["team"] == "blue"
    assert "forged" not in json.dumps(template)


def test_identity_webhooks_are_told_to_leave_all_but_the_runner_alone() -> None:
    annotations = manifests()["batch-job"]["spec"]["template"]["metadata"]["annotations"]
    skipped = "install,sandbox-0,sandbox-1,sandbox-2"
    assert annotations["eks.amazonaws.com/skip-containers"] == skipped
    assert annotations["azure.workload.identity/skip-containers"] == skipped.replace(",", ";")
    assert annotations["pod-identity.alibabacloud.com/skip-containers"] == skipped


def test_d01_an_image_that_can_be_none_gives_way_to_the_runner_image_with_its_cause() -> None:
    template = manifests()["batch-job"]["spec"]["template"]
    images = [item["image"] for item in sandboxes_of(template["spec"])]
    assert images == ["docker.io/library/python:3.13-slim", "docker.io/library/rust:1.75", RUNNER_IMAGE]
    signals = Signals.model_validate_json(template["metadata"]["annotations"][names.ANNOTATION_SIGNALS])
    assert {index: signal.reason for index, signal in signals.sandboxes.items()} == {2: Reason.IMAGE_UNAVAILABLE}
    assert "Bad Image:Tag" in signals.sandboxes[2].message


def test_the_runner_image_as_a_prompts_own_choice_is_not_taken_for_a_lost_one() -> None:
    chosen = batch_job(subject(sandbox={"image": RUNNER_IMAGE}), plan(1), plan(1).batches[0], 1)
    other = batch_job(subject(), plan(1), plan(1).batches[0], 1)
    [wanted], [lost] = (sandboxes_of(made["spec"]["template"]["spec"]) for made in (chosen, other))
    assert wanted["command"][-2:] == ["--runner-image-marker", ""]
    assert "--runner-image-marker" not in lost["command"]


def test_images_are_asked_for_at_the_mirror_and_a_name_that_can_be_none_is_told_as_it_was_written() -> None:
    rules = [{"from": "docker.io/library", "to": "mirror.local/hub"}]
    made = batch_job(subject(sandbox={"imageRewrite": rules}), mixed_plan(), mixed_plan().batches[0], 1)
    template = made["spec"]["template"]
    images = [item["image"] for item in sandboxes_of(template["spec"])]
    assert images == ["mirror.local/hub/python:3.13-slim", "mirror.local/hub/rust:1.75", RUNNER_IMAGE]
    assert "not an image name: 'Bad Image:Tag '" in template["metadata"]["annotations"][names.ANNOTATION_SIGNALS]


def test_an_image_that_is_rewritten_to_the_runner_image_is_not_taken_for_a_lost_one() -> None:
    registry, _, rest = RUNNER_IMAGE.partition("/")
    spec = {"image": f"ghcr.io/{rest}", "imageRewrite": [{"from": "ghcr.io", "to": registry}]}
    [wanted] = sandboxes_of(
        batch_job(subject(sandbox=spec), plan(1), plan(1).batches[0], 1)["spec"]["template"]["spec"]
    )
    assert wanted["command"][-2:] == ["--runner-image-marker", ""]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("runner:dev", "runner:dev", True),
        ("docker.io/library/runner:dev", "runner:dev", True),
        ("docker.io/a/runner", "a/runner:latest", True),
        ("docker.io/runner", "runner:latest", True),
        ("localhost:5000/runner", "localhost:5000/runner:latest", True),
        ("runner:dev", "runner:other", False),
        ("ghcr.io/library/runner", "runner", False),
    ],
)
def test_names_of_one_image(one: str, other: str, same: bool) -> None:
    assert is_same_image(one, other) is same


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("python", True),
        ("python:3.11-slim", True),
        ("docker.io/library/python:3.13-slim", True),
        ("localhost:5000/a/b_c:tag", True),
        ("[::1]:5000/a", True),
        ("ghcr.io/x/y@sha256:" + "a" * 64, True),
        ("registry.invalid/none:1", True),
        ("a__b/c--d", True),
        ("", False),
        (" python", False),
        ("Bad Image:Tag", False),
        ("Python", False),
        ("python:", False),
        ("python:a b", False),
        ("python@sha256:zz", False),
        ("a" * 64, False),
        ("a/" * 200 + "a", False),
        ("x" * 100_000, False),
    ],
)
def test_image_references(text: str, valid: bool) -> None:
    assert is_image_reference(text) is valid


@pytest.mark.parametrize("name", ["a" * 63, "b" * 200, "run.v1.2", "c" * 60 + "-one", "c" * 60 + "-two"])
def test_d04_long_and_odd_names_give_valid_and_distinct_children(name: str) -> None:
    made = [
        batch_job(subject(name), plan(1), plan(1).batches[0], 1),
        plan_job(subject(name), 1),
        merge_job(subject(name), 1),
        config_map(subject(name)),
    ]
    for manifest in made:
        meta = manifest["metadata"]
        assert len(meta["name"]) <= 63
        assert all(len(value) <= 63 for value in meta["labels"].values())
        assert meta["annotations"][names.ANNOTATION_RUN] == name
        assert meta["ownerReferences"][0]["controller"] is True
    assert len({manifest["metadata"]["name"] for manifest in made}) == len(made)


def test_two_long_names_with_the_same_beginning_have_different_children() -> None:
    first, second = (plan_job(subject("c" * 60 + end), 1)["metadata"] for end in ("-one", "-two"))
    assert first["name"] != second["name"]
    assert first["labels"][names.LABEL_RUN] != second["labels"][names.LABEL_RUN]


def large_plan(batches: int) -> Plan:
    """With image names that do not compress."""
    images = [f"registry.example/{names.digest(str(index), chars=60)}" for index in range(batches)]
    return Plan(
        plan_id=PLAN_ID,
        counts=PlanCounts(total=batches, done=0, to_run=batches),
        images=images,
        batches=[PlannedBatch(number=i, offset=i * 10, length=10, images=[i]) for i in range(batches)],
    )


def test_shards_hold_the_whole_plan_and_shard_zero_comes_last() -> None:
    whole = large_plan(5000)
    shards = plan_shards(subject(), whole)
    assert len(shards) > 2
    assert shards[-1]["metadata"]["name"].endswith("-0")
    ordered = [shards[-1], *shards[:-1]]
    assert shard_count(ordered[0]) == len(shards)
    assert read_shards(ordered) == whole
    assert all(len(item["binaryData"]["plan.gz"]) < SHARD_LIMIT_BYTES * 1.4 for item in shards)


def test_shards_of_two_plans_never_mix() -> None:
    first, second = plan_shards(subject(), large_plan(5000)), plan_shards(subject(), large_plan(5001))
    with pytest.raises(ShardsDamaged):
        read_shards([first[-1], *second[:-1]])
