"""What the runner is told over the signals annotation, and images that give way to the runner's own."""

from collections.abc import Iterator

from pydantic import ValidationError

from batchrun_api.messages import SandboxSignal, Signals
from batchrun_api.names import SANDBOX_CONTAINER_PREFIX
from batchrun_api.outcomes import Reason
from batchrun_operator.reconcile.attempts import runner_of
from batchrun_operator.reconcile.conditions import shortened_text
from batchrun_operator.reconcile.decision import PatchPod
from batchrun_operator.reconcile.observed import Container, Pod, Terminated, Waiting
from batchrun_operator.reconcile.timers import NEVER_REASONS, PULL_REASONS, pull_key
from batchrun_operator.reconcile.troubles import CONFIG_REASONS
from batchrun_operator.reconcile.worksheet import Worksheet

SANDBOX_ENDS = frozenset({0, 3})
"""Exit codes of sandboxd that need no explanation (docs/decisions/0002)."""
_MESSAGE_LIMIT_CHARS = 400


def signal_pod(sheet: Worksheet, pod: Pod) -> None:
    """Ask for a patch of the pod where there is something new to tell."""
    if pod.over or pod.leaving or isinstance(runner_of(pod).state, Terminated):
        return
    known = _parse(pod.signals)
    sandboxes = dict(known.sandboxes)
    images: list[tuple[str, str]] = []
    for index, container in _sandboxes(pod):
        signal = _signal(sheet, pod, container)
        if signal is None:
            continue
        if signal.reason is Reason.IMAGE_UNAVAILABLE:
            # Patched even where the signal is there already: the patch is what frees the container.
            images.append((container.name, sheet.pod_settings.runner_image))
            sandboxes[index] = signal
        else:
            sandboxes.setdefault(index, signal)
    told = Signals(sandboxes=sandboxes, stop=known.stop)
    if told != known or images:
        text = told.model_dump_json(exclude_defaults=True)
        sheet.actions.append(PatchPod(pod.name, pod.resource_version, text, tuple(images)))


def _parse(text: str) -> Signals:
    try:
        return Signals.model_validate_json(text or "{}")
    except ValidationError:
        return Signals()


def _sandboxes(pod: Pod) -> Iterator[tuple[int, Container]]:
    for container in pod.containers:
        index = container.name.removeprefix(SANDBOX_CONTAINER_PREFIX)
        if index != container.name and index.isdigit():
            yield int(index), container


def _signal(sheet: Worksheet, pod: Pod, container: Container) -> SandboxSignal | None:
    if isinstance(container.state, Waiting) and container.restarts == 0:
        return _waiting_signal(sheet, pod, container, container.state)
    ends = [container.state, container.last]
    for end in ends:
        if isinstance(end, Terminated) and end.exit_code not in SANDBOX_ENDS:
            limit = sheet.spec.sandbox.resources.limits.memory
            memory = f", memory limit {limit}" if end.reason == "OOMKilled" and limit is not None else ""
            return _make(Reason.SANDBOX_LOST, f"{end.reason or 'ended'}, exit code {end.exit_code}{memory}")
    return None


def _waiting_signal(sheet: Worksheet, pod: Pod, container: Container, state: Waiting) -> SandboxSignal | None:
    if container.image == sheet.pod_settings.runner_image:
        return None
    words = f"{container.image}: {state.message or state.reason}"
    if state.reason in NEVER_REASONS:
        return _make(Reason.IMAGE_UNAVAILABLE, words)
    if state.reason in PULL_REASONS:
        patient = sheet.patient(pull_key(pod, container), sheet.spec.sandbox.image_pull_timeout_seconds)
        return None if patient else _make(Reason.IMAGE_UNAVAILABLE, words)
    if state.reason in CONFIG_REASONS:
        return _make(Reason.SANDBOX_UNAVAILABLE, words)
    return None


def _make(reason: Reason, message: str) -> SandboxSignal:
    return SandboxSignal(reason=reason, message=shortened_text(message, _MESSAGE_LIMIT_CHARS))
