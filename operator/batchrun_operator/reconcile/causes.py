"""What befell a sandbox's container, by its own status: the reason of its prompt, with the numbers."""

from batchrun_api.messages import SandboxSignal
from batchrun_api.names import SANDBOX_CONTAINER_PREFIX
from batchrun_api.outcomes import Reason
from batchrun_api.own_container import AS_THE_RUN_SAYS
from batchrun_operator.manifests.batch_job import sandbox_containers
from batchrun_operator.reconcile.conditions import shortened_text
from batchrun_operator.reconcile.observed import Container, Pod, Terminated, Waiting
from batchrun_operator.reconcile.timers import NEVER_REASONS, PULL_REASONS, create_key, creation_fault, pull_key
from batchrun_operator.reconcile.worksheet import Worksheet

SANDBOX_ENDS = frozenset({0, 3})
"""Exit codes of sandboxd that need no explanation (docs/decisions/0002)."""
KILLED = 137
GIVES_WAY = frozenset({Reason.IMAGE_UNAVAILABLE, Reason.CREATE_CONTAINER_ERROR})
"""Causes that another image mends, as far as sandboxd can then say that its prompt is over."""
_MESSAGE_LIMIT_CHARS = 400


def cause_of(sheet: Worksheet, pod: Pod, container: Container) -> SandboxSignal | None:
    """None: nothing happened to it, or it may yet come."""
    fault = creation_fault(container)
    if fault:
        return _cannot_be_made(sheet, pod, container, fault)
    if isinstance(container.state, Waiting) and container.restarts == 0:
        return _cannot_be_pulled(sheet, pod, container, container.state)
    for end in (container.state, container.last):
        if isinstance(end, Terminated) and end.exit_code not in SANDBOX_ENDS:
            return _death(sheet, pod, container, end)
    return None


def how_it_ended(end: Terminated, memory_limit: object) -> str:
    """`OOMKilled, exit code 137, memory limit 1Gi`."""
    memory = f", memory limit {memory_limit}" if is_oom_kill(end) and memory_limit is not None else ""
    return f"{end.reason or 'ended'}, exit code {end.exit_code}{memory}"


def is_oom_kill(end: Terminated) -> bool:
    """The reason alone says too little: on cgroup v1 a killed command marks a container that ends by itself."""
    return end.reason == "OOMKilled" and end.exit_code == KILLED


def _death(sheet: Worksheet, pod: Pod, container: Container, end: Terminated) -> SandboxSignal:
    reason = Reason.OOM_KILLED if is_oom_kill(end) else Reason.SANDBOX_LOST
    return _make(reason, how_it_ended(end, _memory_limit(sheet, pod, container)))


def _memory_limit(sheet: Worksheet, pod: Pod, container: Container) -> object:
    """Of the row's own container, else the run's."""
    batches = sheet.plan.batches if sheet.plan is not None else []
    batch = next((item for item in batches if item.number == pod.batch), None)
    index = container.name.removeprefix(SANDBOX_CONTAINER_PREFIX)
    own = sandbox_containers(sheet.plan, batch) if sheet.plan is not None and batch is not None else []
    said = own[int(index)] if index.isdigit() and int(index) < len(own) else AS_THE_RUN_SAYS
    return said.over(sheet.spec.sandbox.resources).limits.memory


def _cannot_be_pulled(sheet: Worksheet, pod: Pod, container: Container, state: Waiting) -> SandboxSignal | None:
    if container.image == sheet.pod_settings.runner_image:
        return None
    words = f"{container.image}: {state.message or state.reason}"
    if state.reason in NEVER_REASONS:
        return _make(Reason.IMAGE_UNAVAILABLE, words)
    if state.reason in PULL_REASONS:
        patient = sheet.patient(pull_key(pod, container), sheet.spec.sandbox.image_pull_timeout_seconds)
        return None if patient else _make(Reason.IMAGE_UNAVAILABLE, words)
    return None


def _cannot_be_made(sheet: Worksheet, pod: Pod, container: Container, words: str) -> SandboxSignal | None:
    """A busy runtime mends itself, so it has its time; hopeless where it fails in the runner's image too."""
    limit_seconds = min(sheet.limits.create_seconds, sheet.spec.sandbox.image_pull_timeout_seconds)
    if sheet.patient(create_key(pod, container), limit_seconds):
        return None
    hopeless = container.image == sheet.pod_settings.runner_image
    return _make(Reason.CREATE_CONTAINER_ERROR, f"{container.image}: {words}", hopeless=hopeless)


def _make(reason: Reason, message: str, *, hopeless: bool = False) -> SandboxSignal:
    return SandboxSignal(reason=reason, message=shortened_text(message, _MESSAGE_LIMIT_CHARS), hopeless=hopeless)
