"""Users and resources of rows in the Job of a batch."""

from typing import Any

import pytest
from tests.unit.operator.builders import PLAN_ID, subject

from batchrun_api import frames
from batchrun_api.own_container import OwnAmounts, OwnContainer
from batchrun_api.plan import Plan, PlanCounts, PlannedBatch
from batchrun_operator.manifests import batch_job, plan_shards
from batchrun_operator.manifests.plan_shards import read_shards

SANDBOX = {
    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "256Mi"}},
    "maxResources": {"memory": "4Gi"},
}


def pod_of(containers: list[OwnContainer], indices: list[int], size: int = 3, **spec: Any) -> dict[str, Any]:
    batch = PlannedBatch(number=0, offset=0, length=9, images=[-1] * size, containers=indices)
    plan = Plan(plan_id=PLAN_ID, counts=PlanCounts(total=3, done=0, to_run=3), containers=containers, batches=[batch])
    made = subject(sandbox=SANDBOX, **spec)
    pod: dict[str, Any] = batch_job(made, plan, batch, 1)["spec"]["template"]["spec"]
    return pod


def test_a_container_has_the_user_and_the_limits_of_its_row() -> None:
    own = [
        OwnContainer(user="1000:7", limits=OwnAmounts(memory="64Mi", ephemeral_storage="1Gi")),
        OwnContainer(user="0"),
    ]
    _, first, second, third = pod_of(own, [0, -1, 1])["containers"]
    assert (first["securityContext"]["runAsUser"], first["securityContext"]["runAsGroup"]) == (1000, 7)
    assert first["securityContext"]["allowPrivilegeEscalation"] is False
    assert first["resources"]["limits"] == {"cpu": "1", "memory": "64Mi", "ephemeral-storage": "1Gi"}
    assert first["resources"]["requests"] == {"cpu": "1m", "memory": "1Mi", "ephemeral-storage": "1Mi"}
    assert "runAsUser" not in second["securityContext"]
    assert second["resources"]["limits"] == {"cpu": "1", "memory": "256Mi"}
    assert third["securityContext"]["runAsUser"] == 0
    assert "runAsGroup" not in third["securityContext"]


@pytest.mark.parametrize(
    ("indices", "memory"),
    # The runner asks for 256Mi and may use 1Gi; two prompts work at a time.
    [([], "512Mi"), ([0, -1, -1], "2432Mi"), ([0, 0, -1], "4352Mi"), ([0, 0, 0], "4352Mi"), ([1, 1, 1], "384Mi")],
)
def test_the_pod_asks_for_the_runner_and_the_largest_sandboxes_that_work(indices: list[int], memory: str) -> None:
    own = [OwnContainer(requests=OwnAmounts(memory="2Gi"), limits=OwnAmounts(memory="2Gi"))]
    own.append(OwnContainer(limits=OwnAmounts(memory="64Mi")))
    pod = pod_of(own, indices, promptsPerPod=2)
    assert pod["resources"]["requests"]["memory"] == memory


def test_the_pods_limit_is_that_of_the_largest_sandboxes_too() -> None:
    own = [OwnContainer(limits=OwnAmounts(memory="4Gi"))]
    without, with_own = (pod_of(own, indices)["resources"]["limits"]["memory"] for indices in ([], [-1, 0, -1]))
    assert int(with_own.removesuffix("Mi")) - int(without.removesuffix("Mi")) == 4096 - 256


def test_users_and_resources_come_through_the_plans_log_and_its_config_maps() -> None:
    own = [OwnContainer(user="1000:7", limits=OwnAmounts(cpu=2, memory="64Mi", ephemeral_storage="1Gi"))]
    batch = PlannedBatch(number=0, offset=0, length=9, images=[-1, -1], containers=[-1, 0])
    plan = Plan(plan_id=PLAN_ID, counts=PlanCounts(total=2, done=0, to_run=2), containers=own, batches=[batch])
    assert frames.decode("\n".join(frames.encode(plan))) == plan
    first, *others = reversed(plan_shards(subject(), plan))
    assert read_shards([first, *others]) == plan
