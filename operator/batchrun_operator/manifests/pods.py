"""What the pods of all three steps have in common."""

from batchrun_api import names
from batchrun_operator.manifests.environment import runner_environment
from batchrun_operator.manifests.meta import Manifest, Role, Subject, foreign, metadata, step_labels
from batchrun_operator.manifests.resources import single_container_resources
from batchrun_operator.manifests.security import pod_security, runner_security
from batchrun_operator.manifests.volumes import TMP_DIR, Mounted, empty_dir, private_shm, run_config

GRACE_SECONDS = 30
NEVER_BY_COUNTING = 2147483647
"""The Job controller must not count: it would count every restart of a sandbox (docs/decisions/0002)."""
ANNOTATION_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


def runner_container(
    subject: Subject, arguments: list[str], mounts: list[Manifest], resources: Manifest, *, model_key: bool
) -> Manifest:
    """The container that runs one of our verbs."""
    container: Manifest = {
        "name": names.RUNNER_CONTAINER,
        "image": subject.pods.runner_image,
        "command": ["batchrun"],
        "args": arguments,
        "env": runner_environment(subject, model_key=model_key),
        "volumeMounts": mounts,
        "resources": resources,
        "securityContext": runner_security(),
    }
    if subject.pods.runner_image_pull_policy is not None:
        container["imagePullPolicy"] = subject.pods.runner_image_pull_policy
    return container


def step_arguments(verb: Role, subject: Subject) -> list[str]:
    """The part of the command line that all three verbs share."""
    return [str(verb), "--config", names.CONFIG_FILE, "--plan-id", subject.plan_id]


def runner_mounts(subject: Subject) -> Mounted:
    """What every runner container has: configuration, a writable /tmp, its own /dev/shm."""
    return run_config(subject) + empty_dir("tmp", TMP_DIR) + private_shm("shm-runner")


def pod_spec(subject: Subject, containers: list[Manifest], volumes: list[Manifest]) -> Manifest:
    """The pod, with what `podTemplate` asks for."""
    template = subject.spec.pod_template.to_wire()
    passed = {key: value for key, value in template.items() if key not in ("labels", "annotations")}
    return {
        **passed,
        "restartPolicy": "OnFailure",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": GRACE_SECONDS,
        "securityContext": pod_security(),
        "containers": containers,
        "volumes": volumes,
    }


def job(subject: Subject, name: str, labels: dict[str, str], pod: Manifest, annotations: dict[str, str]) -> Manifest:
    """A Job that only keeps one pod going; attempts are the operator's business."""
    template = subject.spec.pod_template
    own = {names.ANNOTATION_RUN: subject.name, ANNOTATION_DEFAULT_CONTAINER: names.RUNNER_CONTAINER}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(subject, name, labels),
        "spec": {
            "completions": 1,
            "parallelism": 1,
            "backoffLimit": NEVER_BY_COUNTING,
            "podReplacementPolicy": "Failed",
            "template": {
                "metadata": {
                    "labels": foreign(template.labels) | labels,
                    "annotations": foreign(template.annotations) | own | annotations,
                },
                "spec": pod,
            },
        },
    }


def single_container_job(subject: Subject, role: Role, attempt: int, more: Mounted, *, model_key: bool) -> Manifest:
    """The Job of a plan or a merge."""
    mounted = runner_mounts(subject) + more
    resources = single_container_resources(subject.pods.runner_resources)
    arguments = step_arguments(role, subject)
    container = runner_container(subject, arguments, mounted.mounts, resources, model_key=model_key)
    name = subject.child_name(f"{role}-{subject.plan_id}-{attempt}")
    labels = step_labels(subject, role, attempt)
    return job(subject, name, labels, pod_spec(subject, [container], mounted.volumes), {})
