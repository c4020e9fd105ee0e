"""What the runner is told over the signals annotation, and images that give way to the runner's own."""

from collections.abc import Iterator

from pydantic import ValidationError

from batchrun_api.conditions import ConditionType
from batchrun_api.conditions import Reason as ConditionReason
from batchrun_api.messages import SandboxSignal, Signals
from batchrun_api.names import SANDBOX_CONTAINER_PREFIX
from batchrun_operator.reconcile.attempts import lost_runner, runner_of
from batchrun_operator.reconcile.causes import GIVES_WAY, cause_of, how_it_ended
from batchrun_operator.reconcile.decision import PatchPod
from batchrun_operator.reconcile.observed import Container, Pod, Terminated
from batchrun_operator.reconcile.worksheet import Worksheet


def signal_pod(sheet: Worksheet, pod: Pod) -> None:
    """Ask for a patch of the pod where there is something new to tell."""
    if pod.over or pod.leaving or pod.eviction or isinstance(runner_of(pod).state, Terminated):
        return
    known = _parse(pod.signals)
    sandboxes = dict(known.sandboxes)
    images: list[tuple[str, str]] = []
    for index, container in _sandboxes(pod):
        signal = cause_of(sheet, pod, container)
        if signal is None:
            continue
        before = sandboxes.get(index)
        sandboxes[index] = _newer(before, signal)
        if sandboxes[index] != before:
            _tell_of(sheet, pod, container, sandboxes[index])
        if signal.reason in GIVES_WAY and container.image != sheet.pod_settings.runner_image:
            # Patched even where the signal is there already: the patch is what frees the container.
            images.append((container.name, sheet.pod_settings.runner_image))
    last_loss = _lost_runner_words(sheet, pod) or known.last_loss
    told = known.model_copy(update={"sandboxes": sandboxes, "last_loss": last_loss})
    if told != known or images:
        text = told.model_dump_json(exclude_defaults=True)
        sheet.actions.append(PatchPod(pod.name, pod.resource_version, text, tuple(images)))


def _newer(known: SandboxSignal | None, found: SandboxSignal) -> SandboxSignal:
    """The first words speak of the prompt's own image and its first death; hopeless is learned last."""
    if known is None:
        return found
    return known.model_copy(update={"hopeless": True}) if found.hopeless else known


def _tell_of(sheet: Worksheet, pod: Pod, container: Container, signal: SandboxSignal) -> None:
    message = f"batch {pod.batch}, {container.name}: {signal.message}"
    sheet.condition(ConditionType.DISRUPTED, True, ConditionReason(signal.reason.value), message)


def _lost_runner_words(sheet: Worksheet, pod: Pod) -> str:
    end = lost_runner(pod)
    limit = sheet.pod_settings.runner_resources.limits.memory
    return f"the runner container ended: {how_it_ended(end, limit)}" if end is not None else ""


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
