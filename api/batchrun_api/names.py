"""Names and keys that both sides use: labels, annotations, mount paths, deterministic object names."""

import hashlib

LABEL_RUN = "batchrun.dev/run"
"""Name of the BatchRun, shortened with a hash where a label value is too short for it."""
LABEL_RUN_UID = "batchrun.dev/run-uid"
LABEL_ROLE = "batchrun.dev/role"
"""plan, batch or merge."""
LABEL_PLAN = "batchrun.dev/plan"
"""Id of the plan that a child belongs to."""
LABEL_BATCH = "batchrun.dev/batch"
LABEL_ATTEMPT = "batchrun.dev/attempt"
ANNOTATION_RUN = "batchrun.dev/run-name"
"""Full name of the BatchRun."""
ANNOTATION_RETRY = "batchrun.dev/retry"
"""On the BatchRun: any new value plans again, so that failed prompts run again."""
ANNOTATION_SIGNALS = "batchrun.dev/signals"
"""On a batch pod: what only Kubernetes knows, as JSON for the runner (docs/decisions/0001)."""

RUNNER_CONTAINER = "runner"
SANDBOX_CONTAINER_PREFIX = "sandbox-"
INSTALL_CONTAINER = "install"

CONFIG_DIR = "/etc/batchrun"
"""Where the run's configuration is mounted in runner containers: `run.json`."""
CONFIG_FILE = f"{CONFIG_DIR}/run.json"
DATASET_FILE = "/etc/batchrun-dataset/dataset.jsonl"
"""Where a data set from a ConfigMap is mounted in the plan pod."""
DATASET_VOLUME_DIR = "/var/batchrun-dataset"
"""Where the volume of a data set from a PersistentVolumeClaim is mounted in the plan pod."""
PREFILL_FILE = "/etc/batchrun-prefill/messages.json"
SIGNALS_FILE = "/etc/batchrun-signals/signals.json"
"""The signals annotation, by a downwardAPI volume."""
SANDBOX_SOCKETS_DIR = "/run/batchrun/sandboxes"
"""In the runner: one folder for each sandbox, `<index>/s.sock`."""
SANDBOX_SOCKET_DIR = "/run/batchrun/runner"
"""In a sandbox: its own socket's folder, read-only."""
SOCKET_NAME = "s.sock"
BROWSER_CONTAINER = "browser"
BROWSER_SOCKET = f"/run/batchrun/browser/{SOCKET_NAME}"
"""In runner and browser, and in no sandbox."""
HELPER_DIR = "/run/batchrun/bin"
"""In a sandbox and in the init container: where sandboxd is installed, read-only for the sandbox."""

ENV_API_KEY = "BATCHRUN_MODEL_API_KEY"
ENV_EPHEMERAL_SYSTEM_PROMPT = "BATCHRUN_EPHEMERAL_SYSTEM_PROMPT"
ENV_DATASET_PREFIX = "BATCHRUN_DATASET_"
ENV_IN_POD = "BATCHRUN_IN_POD"
"""In front of AWS_*: the keys of a data set that lies in another store than the output."""

_ENV_TOOL_KEY_PREFIX = "BATCHRUN_TOOL_KEY_"

_DNS_LABEL_CHARS = 63


def tool_key_variable(purpose: str) -> str:
    """Environment variable of a runner with the key for `purpose`, which is one of `Tools.key_refs`: web.search."""
    return _ENV_TOOL_KEY_PREFIX + purpose.upper().replace(".", "_")


def digest(*parts: str, chars: int = 10) -> str:
    """First `chars` hex digits of the SHA-256 over the parts; a separator keeps ("a", "bc") and ("ab", "c") apart."""
    return hashlib.sha256("\x1f".join(parts).encode()).hexdigest()[:chars]


def shortened(name: str, limit: int = _DNS_LABEL_CHARS) -> str:
    """`name` as a DNS label of at most `limit` characters; where that changes it, a hash keeps it distinct."""
    label = name.lower().replace(".", "-").replace("_", "-")
    if label == name and len(label) <= limit:
        return label
    suffix = "-" + digest(name, chars=8)
    return label[: limit - len(suffix)].strip("-") + suffix


def child_name(run: str, uid: str, suffix: str) -> str:
    """Deterministic name of a child object: `<run>-<uid hash>-<suffix>`, at most 63 characters.

    The UID keeps a re-created run's children apart from those of its predecessor that are still being deleted.
    """
    tail = f"-{digest(uid, chars=6)}-{suffix}"
    return shortened(run, _DNS_LABEL_CHARS - len(tail)) + tail


def sandbox_container(index: int) -> str:
    """Name of the container for prompt `index` of a batch."""
    return f"{SANDBOX_CONTAINER_PREFIX}{index}"
