"""The Kubernetes objects of a run as plain dictionaries. Pure: the same input gives the same manifest."""

from batchrun_operator.manifests.batch_job import batch_job
from batchrun_operator.manifests.config import config_map
from batchrun_operator.manifests.merge_job import merge_job
from batchrun_operator.manifests.meta import Manifest, Subject
from batchrun_operator.manifests.network_policy import network_policy
from batchrun_operator.manifests.plan_job import plan_job
from batchrun_operator.manifests.plan_shards import plan_shards

__all__ = ["Manifest", "Subject", "batch_job", "config_map", "merge_job", "network_policy", "plan_job", "plan_shards"]
