"""The run's configuration as a ConfigMap: the BatchRun without its secrets, one for each plan."""

import json

from batchrun_api import names
from batchrun_api.spec.run import API_GROUP, API_VERSION, KIND
from batchrun_operator.manifests.meta import Manifest, Subject, metadata, run_labels

CONFIG_KEY = "run.json"


def config_name(run_name: str, run_uid: str, plan_id: str) -> str:
    """Name of the ConfigMap that pods of this plan mount."""
    return names.child_name(run_name, run_uid, f"config-{plan_id}")


def config_map(subject: Subject) -> Manifest:
    """`run.json` in an immutable ConfigMap. The ephemeral system prompt is left out: it must not lie in one."""
    spec = subject.spec.to_wire()
    spec["agent"].pop("ephemeralSystemPrompt", None)
    document = {
        "apiVersion": f"{API_GROUP}/{API_VERSION}",
        "kind": KIND,
        "metadata": {"name": subject.name, "namespace": subject.namespace, "uid": subject.uid},
        "spec": spec,
    }
    labels = run_labels(subject.name, subject.uid) | {names.LABEL_PLAN: subject.plan_id}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata(subject, config_name(subject.name, subject.uid, subject.plan_id), labels),
        "immutable": True,
        "data": {CONFIG_KEY: json.dumps(document, ensure_ascii=False, separators=(",", ":"), sort_keys=True)},
    }
