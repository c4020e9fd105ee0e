"""The one door to the Kubernetes API, and the only import of `kubernetes`."""

from batchrun_operator.kube.client import KubeApi
from batchrun_operator.kube.errors import AlreadyExists, Conflict, KubeError, NotFound, Refused, Unavailable

__all__ = ["AlreadyExists", "Conflict", "KubeApi", "KubeError", "NotFound", "Refused", "Unavailable"]
