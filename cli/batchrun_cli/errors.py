"""What a user is told in one line, whatever went wrong."""

from batchrun_operator.kube import KubeError, NotFound

SOME_FAILED = 1
"""Exit code: the run is over, and prompts failed or did not run."""
CANNOT = 2
"""Exit code: the run failed, or what was asked cannot be done."""


class CommandError(Exception):
    """Cause and fix in one line."""


def in_words(error: KubeError, what: str) -> CommandError:
    """An answer of the API server, about `what` (`BatchRun demo in the namespace x`)."""
    said = " ".join(error.message.split())
    if error.reason == "BadKubeconfig":
        return CommandError(f"the kubeconfig cannot be used: {said}")
    if isinstance(error, NotFound) and error.reason != "NotFound":
        return CommandError("this cluster knows no BatchRuns: install the chart, or choose another --context")
    if isinstance(error, NotFound):
        return CommandError(f"there is no {what}; `kubectl get batchruns -A` lists all")
    if error.status == 401:
        return CommandError("the cluster does not accept the kubeconfig's credentials: log in again")
    if error.status == 403:
        return CommandError(f"not allowed: {said}")
    if error.status == 0:
        return CommandError(f"the cluster does not answer: {said or error.reason}")
    return CommandError(f"{what}: {said or error.reason}")
