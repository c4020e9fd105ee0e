"""Since when something has been so, by the operator's own clock.

Comparing two machines' clocks is never right, so times in objects are not used. A restarted operator starts anew, which
only makes a patience longer.
"""

from collections.abc import Iterable
from datetime import datetime

from batchrun_api.exit_codes import ExitCode
from batchrun_api.names import RUNNER_CONTAINER
from batchrun_operator.reconcile.observed import Container, Job, Observed, Pod, Terminated, Waiting

PULL_REASONS = frozenset({"ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "SignatureValidationFailed"})
"""A pull that failed and may be tried again."""
NEVER_REASONS = frozenset({"InvalidImageName", "ErrImageNeverPull"})
"""A pull that cannot work."""

CREATE_REASONS = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
"""A container that the runtime, or the kubelet before it, could not make or start."""
_START_FAULTS = frozenset({"StartError", "ContainerCannotRun"})


def creation_fault(container: Container) -> str:
    """The kubelet's words about a container that cannot be made or started; empty: there is no such fault."""
    state = container.state
    if isinstance(state, Waiting) and state.reason in CREATE_REASONS:
        return state.message or state.reason
    end = container.last if isinstance(state, Waiting) else state
    if isinstance(end, Terminated) and end.reason in _START_FAULTS:
        return end.message or end.reason
    return ""


def leaving_key(pod: Pod) -> str:
    """A pod is being deleted."""
    return f"leaving/{pod.uid}"


def ended_key(pod: Pod) -> str:
    """The runner ended with 0 and its pod is not over."""
    return f"ended/{pod.uid}"


def pull_key(pod: Pod, container: Container) -> str:
    """An image cannot be pulled. Which image it is belongs to the key."""
    return f"pull/{pod.uid}/{container.name}/{container.image}"


def create_key(pod: Pod, container: Container) -> str:
    """A container cannot be made, with the image that it has now."""
    return f"create/{pod.uid}/{container.name}/{container.image}"


def stuck_key(pod: Pod) -> str:
    """A pod's runner has not started."""
    return f"stuck/{pod.uid}"


def podless_key(job: Job) -> str:
    """A Job has no pod."""
    return f"podless/{job.uid}"


def keys(observed: Observed) -> set[str]:
    """The keys that hold now."""
    pods, jobs = observed.pods or (), observed.jobs or ()
    with_pods = {(pod.role, pod.batch, pod.attempt) for pod in pods}
    held = {key for pod in pods for key in _pod_keys(pod)}
    held |= {podless_key(job) for job in jobs if (job.role, job.batch, job.attempt) not in with_pods}
    return held


def _pod_keys(pod: Pod) -> Iterable[str]:
    runner = pod.container(RUNNER_CONTAINER)
    if pod.leaving:
        yield leaving_key(pod)
    if runner is not None and not pod.over:
        if isinstance(runner.state, Terminated) and runner.state.exit_code == ExitCode.DONE:
            yield ended_key(pod)
        if isinstance(runner.state, Waiting) and runner.restarts == 0:
            yield stuck_key(pod)
    for container in pod.containers:
        if isinstance(container.state, Waiting) and container.state.reason in PULL_REASONS:
            yield pull_key(pod, container)
        if creation_fault(container):
            yield create_key(pod, container)


class FirstSeen:
    """Remembers when each key was seen first, and forgets those that are gone."""

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}

    def update(self, held: Iterable[str], now: datetime) -> dict[str, datetime]:
        """Since when each of the keys holds."""
        self._since = {key: self._since.get(key, now) for key in held}
        return dict(self._since)
