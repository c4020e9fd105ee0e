"""BatchRuns of tests: made, watched, and judged."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.cluster.harness.bucket import Bucket
from tests.cluster.harness.kubectl import Kubectl, wait_for
from tests.cluster.harness.model import ModelServer

SANDBOX_IMAGE = "batchrun-test-python:dev"
SECRET = "s3-credentials"


def jsonl(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as the text of a data set."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def demo_prompt(text: str, *commands: str, answer: str = "done", delay_ms: int = 0) -> str:
    """A prompt that carries its own script: one terminal call for each command, then the answer."""
    turns: list[dict[str, Any]] = [
        {
            "reasoning": "next",
            "tool_calls": [{"name": "terminal", "arguments": {"command": command}}],
            "delay_ms": delay_ms,
        }
        for command in commands
    ]
    turns.append({"reasoning": "all done", "content": answer})
    return f"{text}\n```demo\n{json.dumps(turns)}\n```\n"


@dataclass
class Runs:
    """Makes BatchRuns in one namespace, over one bucket and one model."""

    kubectl: Kubectl
    bucket: Bucket
    model: ModelServer
    is_enforced: bool = True
    """Whether the cluster enforces NetworkPolicies. Where it does not, runs that do not say otherwise are Open."""

    def document(self, name: str, rows: Iterable[Mapping[str, Any]], **spec: Any) -> dict[str, Any]:
        """A BatchRun that works here; `spec` is laid over it, one level deep but for the distribution."""
        base: dict[str, Any] = {
            "dataset": {"inline": jsonl(rows)},
            "batchSize": 5,
            "numWorkers": 2,
            "distribution": {"terminal": 100, "file": 100},
            "model": {"name": "demo/scripted", "baseURL": self.model.base_url},
            "sandbox": {"image": SANDBOX_IMAGE, "imagePullPolicy": "IfNotPresent", "imagePullTimeoutSeconds": 15},
            "output": {
                "s3": {
                    "bucket": self.bucket.name,
                    "prefix": self.kubectl.namespace,
                    "endpointURL": self.bucket.endpoint_url,
                    "region": self.bucket.region,
                    "credentialsSecretRef": {"name": SECRET},
                }
            },
        }
        if not self.is_enforced:
            base["sandbox"]["network"] = {"mode": "Open"}
        for field, value in spec.items():
            is_laid_over = isinstance(value, dict) and field in base and field != "distribution"
            base[field] = base[field] | value if is_laid_over else value
        return {"apiVersion": "batchrun.dev/v1alpha1", "kind": "BatchRun", "metadata": {"name": name}, "spec": base}

    def start(self, name: str, rows: Iterable[Mapping[str, Any]], **spec: Any) -> Run:
        """Apply a BatchRun."""
        document = self.document(name, rows, **spec)
        self.kubectl.apply(document)
        return Run(self, name, document)


def true_conditions(item: dict[str, Any]) -> set[str]:
    """The types of an object's conditions that are true."""
    return {c["type"] for c in item["status"].get("conditions", []) if c["status"] == "True"}


@dataclass
class Run:
    """One BatchRun that was applied."""

    runs: Runs
    name: str
    document: dict[str, Any]

    @property
    def prefix(self) -> str:
        """Where its objects lie in the bucket."""
        return f"{self.runs.kubectl.namespace}/{self.document['spec'].get('runName', self.name)}"

    def get(self) -> dict[str, Any]:
        """The resource as it is now; empty where there is none."""
        return self.runs.kubectl.get("batchruns", self.name) or {}

    @property
    def status(self) -> dict[str, Any]:
        """Its status."""
        return dict(self.get().get("status", {}))

    def condition(self, kind: str) -> dict[str, Any] | None:
        """A condition, or None where it is not there or not true."""
        conditions = self.status.get("conditions", [])
        return next((c for c in conditions if c["type"] == kind and c["status"] == "True"), None)

    def wait_ended(self, timeout_seconds: float = 120) -> dict[str, Any]:
        """The condition Complete or Failed, whichever comes."""
        try:
            return wait_for(
                f"{self.name} has ended",
                lambda: self.condition("Complete") or self.condition("Failed"),
                timeout_seconds,
            )
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.story()}") from None

    def wait_complete(self, timeout_seconds: float = 120) -> dict[str, Any]:
        """Waits for the end, which must be Complete; returns the status."""
        ended = self.wait_ended(timeout_seconds)
        assert ended["type"] == "Complete", f"{ended}\n{self.story()}"
        return self.status

    def pods(self, role: str = "") -> list[dict[str, Any]]:
        """Its pods, of one role (plan, batch, merge) or all."""
        selector = f"batchrun.dev/run={self.name}" + (f",batchrun.dev/role={role}" if role else "")
        return self.runs.kubectl.list("pods", selector)

    def ended_jobs(self, role: str = "batch") -> list[dict[str, Any]]:
        """Its Jobs of one role, each Complete or Failed: a run ends before its Jobs do, whose sandboxes stop first."""
        selector = f"batchrun.dev/run={self.name},batchrun.dev/role={role}"

        def all_ended() -> list[dict[str, Any]]:
            jobs = self.runs.kubectl.list("jobs", selector)
            return jobs if all({"Complete", "Failed"} & true_conditions(job) for job in jobs) else []

        return wait_for(f"the {role} Jobs of {self.name} have ended", all_ended)

    def running_pod(self, role: str = "batch") -> dict[str, Any] | None:
        """A pod whose runner container runs, or None."""
        for pod in self.pods(role):
            statuses = pod["status"].get("containerStatuses", [])
            is_running = any(s["name"] == "runner" and "running" in s["state"] for s in statuses)
            if is_running and "deletionTimestamp" not in pod["metadata"]:
                return pod
        return None

    def rows(self) -> list[dict[str, Any]]:
        """The merged result."""
        return self.runs.bucket.rows(f"{self.prefix}/trajectories.jsonl")

    def replace(self) -> None:
        """`kubectl replace --force -f`: delete and apply."""
        self.runs.kubectl.run("replace", "--force", "-f", "-", stdin=json.dumps(self.document))

    def story(self) -> str:
        """What somebody who looks for a fault wants to see."""
        kubectl = self.runs.kubectl
        parts = [json.dumps(self.status, indent=1), kubectl.run("get", "jobs,pods", check=False)]
        parts.append(kubectl.run("get", "events", "--sort-by=.lastTimestamp", check=False)[-3000:])
        for pod in self.pods()[-4:]:
            name = pod["metadata"]["name"]
            parts.append(f"--- {name}\n" + kubectl.run("logs", name, "-c", "runner", "--tail=20", check=False))
        parts.append(kubectl.within("batchrun-system").run("logs", "deploy/batchrun", "--tail=30", check=False))
        return "\n".join(parts)
