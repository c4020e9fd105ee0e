"""The browser's container beside the runner (docs/decisions/0021)."""

from pathlib import PurePosixPath

from batchrun_api import names
from batchrun_operator.manifests.meta import Manifest, Subject
from batchrun_operator.manifests.resources import container_resources
from batchrun_operator.manifests.security import runner_security
from batchrun_operator.manifests.volumes import TMP_DIR, Mounted, copied_files, empty_dir, private_shm


def browser_socket() -> Mounted:
    """The folder of its socket, for runner and browser alone."""
    return empty_dir("browser-socket", str(PurePosixPath(names.BROWSER_SOCKET).parent))


def browser_container(subject: Subject) -> tuple[Manifest, list[Manifest]]:
    """A native sidecar: Kubernetes ends it after the runner and the sandboxes, and starts it again where it dies.

    With it come the volumes that are its own. It gets no environment: no secret of the run is there.
    """
    own = empty_dir("browser-tmp", TMP_DIR) + private_shm("shm-browser")
    tools = subject.spec.tools
    container: Manifest = {
        "name": names.BROWSER_CONTAINER,
        "image": subject.pods.browser_image,
        "restartPolicy": "Always",
        "command": ["batchrun"],
        "args": [
            "browser",
            *("--socket", names.BROWSER_SOCKET),
            *(("--action-timeout", str(tools.browser.action_timeout_seconds)) if tools.browser else ()),
            *(word for cidr in (tools.web.allowed_ranges if tools.web else ()) for word in ("--allow", cidr)),
        ],
        "volumeMounts": [*browser_socket().mounts, *own.mounts, *copied_files()],
        "resources": container_resources(subject.pods.browser_resources),
        "securityContext": runner_security(),
    }
    if subject.pods.browser_image_pull_policy is not None:
        container["imagePullPolicy"] = subject.pods.browser_image_pull_policy
    return container, own.volumes
