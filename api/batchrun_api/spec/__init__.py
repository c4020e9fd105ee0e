"""The `spec` of a BatchRun, one module for each part a user thinks of. `kubectl explain` shows the descriptions."""

from batchrun_api.spec.agent import Agent, PrefillMessage
from batchrun_api.spec.dataset import Dataset
from batchrun_api.spec.model import Model
from batchrun_api.spec.output import Output, S3Location
from batchrun_api.spec.pod import PodTemplate
from batchrun_api.spec.run import BatchRun, BatchRunSpec
from batchrun_api.spec.sandbox import Sandbox

__all__ = [
    "Agent",
    "BatchRun",
    "BatchRunSpec",
    "Dataset",
    "Model",
    "Output",
    "PodTemplate",
    "PrefillMessage",
    "S3Location",
    "Sandbox",
]
