"""The Job that puts the results of all batches together."""

from batchrun_operator.manifests.meta import Manifest, Role, Subject
from batchrun_operator.manifests.pods import single_container_job
from batchrun_operator.manifests.volumes import prefill


def merge_job(subject: Subject, attempt: int) -> Manifest:
    """Attempt `attempt` (counted from 1) of the merge. It needs no data set and no model key."""
    return single_container_job(subject, Role.MERGE, attempt, prefill(subject), model_key=False)
