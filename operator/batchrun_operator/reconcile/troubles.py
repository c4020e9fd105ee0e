"""Why an attempt does not get going: what only Kubernetes knows, with the next step for the user."""

from dataclasses import dataclass

from batchrun_api import names
from batchrun_api.conditions import Reason
from batchrun_api.messages import BatchMessage, StepMessage
from batchrun_operator.manifests.meta import Role
from batchrun_operator.reconcile.attempts import Active, runner_of
from batchrun_operator.reconcile.causes import how_it_ended
from batchrun_operator.reconcile.conditions import shortened_text
from batchrun_operator.reconcile.observed import Container, Pod, Refusal, Terminated, Waiting
from batchrun_operator.reconcile.timers import CREATE_REASONS, NEVER_REASONS, PULL_REASONS, podless_key, stuck_key
from batchrun_operator.reconcile.worksheet import Worksheet

_WORDS_LIMIT_CHARS = 1000
_TELLING_RESTARTS = 2
_BY_SIGNAL = 128
"""An exit code above it: killed, by the kernel for instance."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What holds an attempt up."""

    reason: Reason
    message: str


def trouble_of(sheet: Worksheet, active: Active) -> Trouble | None:
    """None: it is going, or it may yet."""
    if active.pod is not None:
        return _pod_trouble(sheet, active.pod)
    if active.job is None or active.job.suspended:
        return None
    refusal = sheet.observed.refusals.get(active.job.name)
    if sheet.patient(podless_key(active.job), sheet.limits.trouble_seconds) or refusal is None:
        return None
    return _refused(refusal)


def _pod_trouble(sheet: Worksheet, pod: Pod) -> Trouble | None:
    for container in (runner_of(pod), pod.install, pod.browser):
        trouble = _container_trouble(container)
        if trouble is not None:
            return trouble
    crash = _crash(pod, sheet.pod_settings.runner_resources.limits.memory)
    if crash is not None:
        return crash
    refusal = sheet.observed.refusals.get(pod.name)
    if pod.unschedulable:
        refusal = Refusal(Reason.UNSCHEDULABLE.value, pod.unschedulable)
    if refusal is None or sheet.patient(stuck_key(pod), sheet.limits.trouble_seconds):
        return None
    return _refused(refusal)


def _refused(refusal: Refusal) -> Trouble:
    reason = Reason(refusal.reason)
    return Trouble(reason, _next_step(reason, refusal.message))


def _container_trouble(container: Container | None) -> Trouble | None:
    if container is None or not isinstance(container.state, Waiting):
        return None
    words = container.state.message or container.state.reason
    if container.state.reason in PULL_REASONS | NEVER_REASONS:
        kind = names.BROWSER_CONTAINER if container.name == names.BROWSER_CONTAINER else names.RUNNER_CONTAINER
        message = f"the {kind} image {container.image} cannot be pulled: {words}"
        return Trouble(Reason.IMAGE_UNAVAILABLE, _next_step(Reason.IMAGE_UNAVAILABLE, message))
    if container.state.reason in CREATE_REASONS:
        return Trouble(Reason.CONTAINER_CONFIG_ERROR, _next_step(Reason.CONTAINER_CONFIG_ERROR, words))
    return None


def _crash(pod: Pod, memory_limit: object) -> Trouble | None:
    """A runner that ended by a fault and is started again. One crash is no news, two in a row are."""
    runner = runner_of(pod)
    last = runner.state if isinstance(runner.state, Terminated) else runner.last
    if last is None or last.exit_code == 0 or runner.restarts < _TELLING_RESTARTS:
        return None
    told: BatchMessage | StepMessage | None = (BatchMessage if pod.role is Role.BATCH else StepMessage).parse(
        last.message
    )
    fallback = Reason.RUNNER_LOST if last.exit_code > _BY_SIGNAL else Reason.INTERNAL
    reason = told.reason if told is not None and told.reason in [*Reason] else fallback.value
    words = f"the runner ended {runner.restarts} times, the last time: {how_it_ended(last, memory_limit)}"
    if told is not None and told.message:
        words += f": {told.message}"
    return Trouble(Reason(reason), _next_step(fallback, f"{words}. kubectl logs {pod.name} -c runner --previous"))


_NEXT_STEPS = {
    Reason.UNSCHEDULABLE: "Add nodes, lower sandbox.resources.requests, promptsPerPod or numWorkers, "
    "or change podTemplate.nodeSelector, .affinity or .tolerations",
    Reason.QUOTA_EXCEEDED: "It starts by itself when the quota has room; or lower sandbox.resources or numWorkers",
    Reason.POD_REFUSED: "Change the namespace's policy, podTemplate or sandbox.podSecurity",
    Reason.RUNNER_LOST: "For OOMKilled: lower promptsPerPod, or raise runnerResources.limits.memory of the chart",
    Reason.CONTAINER_CONFIG_ERROR: "Make the missing Secret, ConfigMap or key; it starts by itself then",
    Reason.IMAGE_UNAVAILABLE: "Check the operator's runner image and podTemplate.imagePullSecrets",
}


def _next_step(reason: Reason, words: str) -> str:
    text = shortened_text(words.rstrip(". \n"), _WORDS_LIMIT_CHARS)
    step = _NEXT_STEPS.get(reason)
    return f"{text}. {step}" if step else text
