"""The Job of one batch: the runner and one sandbox container for each prompt (docs/decisions/0001)."""

from batchrun_api import names
from batchrun_api.messages import SandboxSignal, Signals
from batchrun_api.outcomes import Reason
from batchrun_api.own_container import AS_THE_RUN_SAYS, OwnContainer
from batchrun_api.plan import Plan, PlannedBatch
from batchrun_api.spec.sandbox import ResourceList, Resources
from batchrun_operator.manifests.browser import browser_container, browser_socket
from batchrun_operator.manifests.images import is_image_reference, is_same_image
from batchrun_operator.manifests.meta import Manifest, Role, Subject, step_labels
from batchrun_operator.manifests.pods import job, pod_spec, runner_container, runner_mounts, step_arguments
from batchrun_operator.manifests.resources import container_resources, pod_resources
from batchrun_operator.manifests.security import UserIds, runner_security, sandbox_security
from batchrun_operator.manifests.volumes import (
    COPIED_FILES,
    HELPER_VOLUME,
    Mounted,
    copied_files,
    empty_dir,
    mount,
    prefill,
    private_shm,
    signals,
)

SANDBOXD = "/usr/local/bin/sandboxd"
"""In the runner image."""
_NOTHING_TOLD = Signals()
INSTALL_RESOURCES = Resources(limits=ResourceList(cpu="500m", memory="64Mi"))


def batch_job(
    subject: Subject, plan: Plan, batch: PlannedBatch, attempt: int, told: Signals = _NOTHING_TOLD
) -> Manifest:
    """Attempt `attempt` (counted from 1) of a batch. `told`: what its runner knows of the attempts before."""
    images = sandbox_images(subject, plan, batch)
    mounted = runner_mounts(subject) + prefill(subject) + signals() + _sockets(len(batch.images))
    beside = []
    if batch.browser:
        mounted += browser_socket()
        beside = [browser_container(subject)]
    shared = [{"name": HELPER_VOLUME, "emptyDir": {}}]
    private = [volume for index in range(len(images)) for volume in private_shm(f"shm-{index}").volumes]
    asked_for = [subject.spec.sandbox.rewritten(image) if is_image_reference(image) else image for image in images]
    own = sandbox_containers(plan, batch)
    resources = [item.over(subject.spec.sandbox.resources) for item in own]
    containers = [
        _runner(subject, batch, attempt, mounted),
        *(
            _sandbox(subject, index, image, (own[index].user_ids, resources[index]))
            for index, image in enumerate(asked_for)
        ),
    ]
    volumes = mounted.volumes + shared + private + [volume for _, own_volumes in beside for volume in own_volumes]
    pod = pod_spec(subject, containers, volumes)
    pod["initContainers"] = [_install(subject), *(container for container, _ in beside)]
    pod["resources"] = pod_resources(
        [subject.pods.runner_resources, *([subject.pods.browser_resources] if beside else [])],
        resources,
        working=min(subject.spec.prompts_per_pod, len(images)),
    )
    labels = step_labels(subject, Role.BATCH, attempt, batch.number)
    annotations = _identity_webhooks(len(images), has_browser=batch.browser) | {
        names.ANNOTATION_SIGNALS: _first_signals(asked_for, told).model_dump_json(exclude_defaults=True)
    }
    return job(subject, subject.child_name(f"b{batch.number}-{attempt}"), labels, pod, annotations)


def sandbox_images(subject: Subject, plan: Plan, batch: PlannedBatch) -> list[str]:
    """The image that each prompt names, whether or not it can be one."""
    default = subject.spec.sandbox.image
    return [default if index < 0 else plan.images[index] for index in batch.images]


def sandbox_containers(plan: Plan, batch: PlannedBatch) -> list[OwnContainer]:
    """What each prompt says of its own container."""
    indices = batch.containers or [-1] * len(batch.images)
    return [AS_THE_RUN_SAYS if index < 0 else plan.containers[index] for index in indices]


def _first_signals(images: list[str], told: Signals) -> Signals:
    """A name that can never be pulled is known before the pod exists."""
    sandboxes = {
        index: SandboxSignal(reason=Reason.IMAGE_UNAVAILABLE, message=f"not an image name: {image[:300]!r}")
        for index, image in enumerate(images)
        if not is_image_reference(image)
    }
    return told.model_copy(update={"sandboxes": sandboxes})


def _runner(subject: Subject, batch: PlannedBatch, attempt: int, mounted: Mounted) -> Manifest:
    arguments = [
        *step_arguments(Role.BATCH, subject),
        *("--batch", str(batch.number)),
        *("--offset", str(batch.offset)),
        *("--length", str(batch.length)),
        *("--attempt", str(attempt)),
    ]
    resources = container_resources(subject.pods.runner_resources)
    return runner_container(subject, arguments, mounted.mounts + copied_files(), resources, model_key=True)


def _sockets(count: int) -> Mounted:
    sockets = Mounted()
    for index in range(count):
        sockets += empty_dir(f"socket-{index}", f"{names.SANDBOX_SOCKETS_DIR}/{index}")
    return sockets


def _sandbox(subject: Subject, index: int, image: str, own: tuple[UserIds, Resources]) -> Manifest:
    sandbox = subject.spec.sandbox
    user_ids, resources = own
    # The runner's image stands for one that cannot be pulled, unless it is the very image that the prompt wants.
    own_choice = ["--runner-image-marker", ""] if is_same_image(image, subject.pods.runner_image) else []
    container: Manifest = {
        "name": names.sandbox_container(index),
        # The API server would refuse the Job for a name with a blank at its end; sandboxd reports the prompt instead.
        "image": image if is_image_reference(image) else subject.pods.runner_image,
        "command": [
            f"{names.HELPER_DIR}/sandboxd",
            "serve",
            "--socket",
            f"{names.SANDBOX_SOCKET_DIR}/{names.SOCKET_NAME}",
            *own_choice,
        ],
        "volumeMounts": [
            mount(HELPER_VOLUME, names.HELPER_DIR, read_only=True),
            mount(f"socket-{index}", names.SANDBOX_SOCKET_DIR, read_only=True),
            *private_shm(f"shm-{index}").mounts,
            *copied_files(),
        ],
        "resources": container_resources(resources),
        "securityContext": sandbox_security(sandbox.pod_security, user_ids),
    }
    if sandbox.image_pull_policy is not None:
        container["imagePullPolicy"] = sandbox.image_pull_policy
    return container


def _install(subject: Subject) -> Manifest:
    container: Manifest = {
        "name": names.INSTALL_CONTAINER,
        "image": subject.pods.runner_image,
        "command": [SANDBOXD, "install", names.HELPER_DIR],
        "args": [word for path in COPIED_FILES for word in ("--copy", path)],
        "volumeMounts": [mount(HELPER_VOLUME, names.HELPER_DIR)],
        "resources": container_resources(INSTALL_RESOURCES),
        "securityContext": runner_security(),
    }
    if subject.pods.runner_image_pull_policy is not None:
        container["imagePullPolicy"] = subject.pods.runner_image_pull_policy
    return container


def _identity_webhooks(count: int, *, has_browser: bool) -> dict[str, str]:
    """Webhooks that inject a cloud identity into every container must leave ours out, but for the runner."""
    browser = [names.BROWSER_CONTAINER] if has_browser else []
    skipped = [names.INSTALL_CONTAINER, *browser, *(names.sandbox_container(index) for index in range(count))]
    return {
        "eks.amazonaws.com/skip-containers": ",".join(skipped),
        "azure.workload.identity/skip-containers": ";".join(skipped),
        "pod-identity.alibabacloud.com/skip-containers": ",".join(skipped),
    }
