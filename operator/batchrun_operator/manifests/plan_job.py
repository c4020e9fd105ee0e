"""The Job that reads the data set, finds out what is done and prints the plan."""

from batchrun_operator.manifests.meta import Manifest, Role, Subject
from batchrun_operator.manifests.pods import single_container_job
from batchrun_operator.manifests.volumes import data_set, prefill


def plan_job(subject: Subject, attempt: int) -> Manifest:
    """Attempt `attempt` (counted from 1) of planning."""
    return single_container_job(subject, Role.PLAN, attempt, data_set(subject) + prefill(subject), model_key=True)
