"""A cluster in memory for whole runs: Job controller, kubelet and runners, moved one small step at a time.

The store (`stored`) is what survives pods: outcomes of prompts by batch, as in S3.
"""

import random
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from tests.unit.operator.builders import LIMITS, NOW, PODS, nowhere, raw_spec
from tests.unit.operator.fake_kube import FakeKube, Json, Killed

from batchrun_api import frames, names
from batchrun_api.exit_codes import ExitCode
from batchrun_api.messages import BatchMessage, MergeResult, StepMessage, sandbox_message
from batchrun_api.outcomes import Outcome, Reason
from batchrun_api.plan import Plan, PlanCounts, PlannedBatch
from batchrun_api.spec.run import API_GROUP, API_VERSION, KIND
from batchrun_operator.apply import apply
from batchrun_operator.gather import gather
from batchrun_operator.kube import Conflict, KubeError
from batchrun_operator.memory import RunMemory
from batchrun_operator.reconcile.decide import decide

OUTCOMES = (Outcome.COMPLETED, Outcome.COMPLETED, Outcome.TRUNCATED, Outcome.FAILED)


class World:
    """One BatchRun, its cluster and its store."""

    def __init__(self, sizes: list[int], seed: int = 0, **spec: Any) -> None:
        self.kube = FakeKube()
        self.random = random.Random(seed)
        self.now: datetime = NOW
        self.sizes = sizes
        self.stored: dict[int, list[Outcome]] = {}
        """Outcomes of each batch's prompts, those that have one."""
        self.model_calls: Counter[tuple[int, int]] = Counter()
        """How often each prompt was worked on to its end."""
        self.memory = RunMemory()
        self.plans_made = 0
        self.rows_are_there = False
        """Whether the plan's rows lie in the store: a batch pod reads them once, when it starts."""
        self._started: set[str] = set()
        self.progress_seen: list[tuple[str, int]] = []
        self.kube.put(
            "batchruns",
            {
                "apiVersion": f"{API_GROUP}/{API_VERSION}",
                "kind": KIND,
                "metadata": {"name": "demo", "namespace": "ns", "uid": "run-uid", "generation": 1},
                "spec": raw_spec(**spec),
            },
        )

    # ---- the operator ----

    @property
    def run(self) -> Json:
        return self.kube.objects["batchruns", "ns", "demo"]

    @property
    def status(self) -> Json:
        status: Json = self.run.get("status") or {}
        return status

    def condition(self, kind: str) -> tuple[str, str] | None:
        for item in self.status.get("conditions", ()):
            if item["type"] == kind:
                return item["status"], item["reason"]
        return None

    @property
    def finished(self) -> bool:
        return any((self.condition(kind) or ("", ""))[0] == "True" for kind in ("Complete", "Failed"))

    async def operate(self, kill_after: int | None = None) -> None:
        """One pass; killed after so many API calls, the operator comes back without a memory."""
        self.kube.kill_after = kill_after
        try:
            raw = await self.kube.get("batchruns", "ns", "demo")
            observed = await gather(self.kube, raw, self.memory, self.now, LIMITS, nowhere)
            decision = decide(observed, self.now, PODS, LIMITS)
            await apply(self.kube, raw, decision, self.memory, self.now)
        except Killed:
            self.memory = RunMemory()
        except (Conflict, KubeError):
            pass
        finally:
            self.kube.kill_after = None
        self._check()

    def _check(self) -> None:
        """What must hold after every pass."""
        self._never_two_attempts()
        status = self.status
        prompts, plan = status.get("prompts", {}), status.get("plan", {})
        parts = ("completed", "truncated", "discarded", "failed", "notRun")
        assert prompts.get("total", 0) == sum(prompts.get(part, 0) for part in parts), prompts
        done = prompts.get("total", 0) - prompts.get("notRun", 0)
        if (self.condition("Planned") or ("", ""))[0] != "True":
            self.progress_seen.clear()  # the figures are those of the plan before
        elif not self.finished:
            identity = (plan["id"], done)
            if self.progress_seen and self.progress_seen[-1][0] == identity[0]:
                assert identity[1] >= self.progress_seen[-1][1], "DONE fell"
            self.progress_seen.append(identity)

    def _never_two_attempts(self) -> None:
        alive: dict[str, set[str]] = {}
        for kind in ("jobs", "pods"):
            for item in self.kube.all(kind):
                labels = item["metadata"]["labels"]
                if kind == "jobs" and _job_is_finished(item):
                    continue
                if kind == "pods" and item["status"]["phase"] in ("Succeeded", "Failed"):
                    continue
                step = labels[names.LABEL_ROLE] + labels.get(names.LABEL_BATCH, "")
                alive.setdefault(step, set()).add(labels[names.LABEL_PLAN] + labels[names.LABEL_ATTEMPT])
        assert all(len(attempts) == 1 for attempts in alive.values()), alive

    # ---- the cluster ----

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def control_jobs(self) -> None:
        """Job controller and kubelet: a pod for each Job that has none, Complete when its pod succeeded."""
        self._keep_pods_going()
        for job in self.kube.all("jobs"):
            name = job["metadata"]["name"]
            pods = [pod for pod in self.kube.all("pods") if pod["metadata"]["labels"].get("job-name") == name]
            status = job.setdefault("status", {})
            if any(pod["status"]["phase"] == "Succeeded" for pod in pods):
                status["conditions"] = [{"type": "Complete", "status": "True"}]
            elif all(pod["status"]["phase"] == "Failed" for pod in pods) and not _job_is_finished(job):
                self._make_pod(job, len(pods))

    def _keep_pods_going(self) -> None:
        """The kubelet: a runner that ended with an error starts again, unless its pod is being deleted."""
        for pod in self.kube.all("pods"):
            runner = _runner(pod)
            if pod["status"]["phase"] != "Running" or "terminated" not in runner["state"]:
                continue
            if "deletionTimestamp" in pod["metadata"]:
                self.kube.remove("pods", pod)
                continue
            runner["lastState"], runner["state"] = runner["state"], {"running": {}}
            runner["restartCount"] = runner.get("restartCount", 0) + 1
            self.kube.touch("pods", pod)

    def _make_pod(self, job: Json, number: int) -> None:
        template = job["spec"]["template"]
        containers = [{"name": item["name"], "image": item["image"]} for item in template["spec"]["containers"]]
        labels = template["metadata"]["labels"] | {"job-name": job["metadata"]["name"]}
        self.kube.put(
            "pods",
            {
                "metadata": {
                    "name": f"{job['metadata']['name']}-{number}-{self.random.randrange(10**6)}",
                    "namespace": "ns",
                    "labels": labels,
                    "annotations": dict(template["metadata"]["annotations"]),
                },
                "spec": {"containers": containers},
                "status": {"phase": "Running", "containerStatuses": [_running(item["name"]) for item in containers]},
            },
        )

    def working_pods(self) -> list[Json]:
        """Pods whose runner is not over."""
        return [
            pod
            for pod in self.kube.all("pods")
            if pod["status"]["phase"] == "Running" and "terminated" not in _runner(pod)["state"]
        ]

    def work(self, pod: Json) -> None:
        """The runner gets on: one prompt of a batch, or all of a plan or merge."""
        role = pod["metadata"]["labels"][names.LABEL_ROLE]
        if "deletionTimestamp" in pod["metadata"]:
            self._end_runner(pod, ExitCode.WORK_LEFT, "")
        elif role == "plan":
            self._plan(pod)
        elif role == "merge":
            self._merge(pod)
        else:
            self._work_on_batch(pod)
        self.kube.touch("pods", pod)

    def _plan_document(self, plan_id: str) -> Plan:
        """Everything that is not done, in batches with new numbers."""
        first = max(self.stored, default=-1) + 1
        left = sum(self.sizes) - self.done_in_store()
        sizes, counted = [], 0
        for size in self.sizes:
            take = min(size, left - counted)
            if take > 0:
                sizes.append(take)
                counted += take
        batches = [
            PlannedBatch(number=first + i, offset=i * 10, length=10, images=[-1] * n) for i, n in enumerate(sizes)
        ]
        done = Counter(outcome for entries in self.stored.values() for outcome in entries)
        counts = PlanCounts(
            total=sum(self.sizes),
            done=self.done_in_store(),
            completed=done[Outcome.COMPLETED],
            truncated=done[Outcome.TRUNCATED],
            to_run=left,
        )
        return Plan(plan_id=plan_id, counts=counts, batches=batches)

    def done_in_store(self) -> int:
        return sum(outcome is not Outcome.FAILED for entries in self.stored.values() for outcome in entries)

    def _plan(self, pod: Json) -> None:
        self.plans_made += 1
        self.rows_are_there = True
        document = self._plan_document(pod["metadata"]["labels"][names.LABEL_PLAN])
        for batch in document.batches:
            self.stored.setdefault(batch.number, [])
        self.sizes_of = {batch.number: len(batch.images) for batch in document.batches}
        self.kube.logs[pod["metadata"]["name"]] = "\n".join(['{"event":"hello"}', *frames.encode(document)])
        self._end_runner(pod, ExitCode.DONE, StepMessage().encode())

    def _work_on_batch(self, pod: Json) -> None:
        if pod["metadata"]["name"] not in self._started and not self.rows_are_there:
            self._end_runner(pod, ExitCode.BLOCKED, BatchMessage(reason="PlanBroken", message="gone").encode())
            return
        self._started.add(pod["metadata"]["name"])
        number = int(pod["metadata"]["labels"][names.LABEL_BATCH])
        entries, size = self.stored[number], self.sizes_of[number]
        shown = sum("terminated" in item["state"] for item in pod["status"]["containerStatuses"][1:])
        if shown < len(entries):  # an earlier attempt finished it
            self._end_sandbox(pod, shown, entries[shown])
        elif len(entries) < size:
            entries.append(self.random.choice(OUTCOMES))
            self.model_calls[number, len(entries) - 1] += 1
            if self.random.random() < 0.9:  # else: stored, and killed before its sandbox ended
                self._end_sandbox(pod, shown, entries[-1])
        else:
            found = Counter(entries)
            message = BatchMessage(
                completed=found[Outcome.COMPLETED], truncated=found[Outcome.TRUNCATED], failed=found[Outcome.FAILED]
            )
            self._end_runner(pod, ExitCode.DONE, message.encode())

    def _merge(self, pod: Json) -> None:
        found = Counter(outcome for entries in self.stored.values() for outcome in entries)
        total = sum(self.sizes)
        done = found[Outcome.COMPLETED] + found[Outcome.TRUNCATED]
        result = MergeResult(
            total=total,
            completed=found[Outcome.COMPLETED],
            truncated=found[Outcome.TRUNCATED],
            discarded=0,
            failed=total - done,
            not_run=0,
        )
        self._end_runner(pod, ExitCode.DONE, StepMessage(result=result.model_dump()).encode())

    def _end_sandbox(self, pod: Json, index: int, outcome: Outcome) -> None:
        reason = Reason.PROVIDER_ERROR if outcome is Outcome.FAILED else None
        _end(pod["status"]["containerStatuses"][index + 1], 0, sandbox_message(outcome, reason))

    def _end_runner(self, pod: Json, code: int, message: str) -> None:
        _end(_runner(pod), code, message)
        if code == ExitCode.DONE:
            for item in pod["status"]["containerStatuses"][1:]:
                if "terminated" not in item["state"]:
                    _end(item, 0, "")
            pod["status"]["phase"] = "Succeeded"
        elif "deletionTimestamp" in pod["metadata"]:
            pod["status"]["phase"] = "Failed"

    # ---- faults ----

    def crash(self, pod: Json) -> None:
        """SIGKILL of the runner container; the kubelet restarts it."""
        runner = _runner(pod)
        runner["lastState"] = {"terminated": {"exitCode": 137, "reason": "Error"}}
        runner["restartCount"] = runner.get("restartCount", 0) + 1
        self.kube.touch("pods", pod)

    def evict(self, pod: Json) -> None:
        pod["status"] |= {"phase": "Failed", "reason": "Evicted"}
        self.kube.touch("pods", pod)

    def stop_with_work_left(self, pod: Json) -> None:
        self._end_runner(pod, ExitCode.WORK_LEFT, "")
        if ("pods", "ns", pod["metadata"]["name"]) in self.kube.objects:
            self.kube.touch("pods", pod)

    def delete_pod(self, pod: Json) -> None:
        pod["metadata"]["deletionTimestamp"] = "now"
        self.kube.touch("pods", pod)

    def vanish(self, pod: Json) -> None:
        """Force-deleted: nobody sees how it ended. The Job controller counts it."""
        self.kube.remove("pods", pod)
        for job in self.kube.all("jobs"):
            if job["metadata"]["name"] == pod["metadata"]["labels"].get("job-name"):
                job.setdefault("status", {})["failed"] = job["status"].get("failed", 0) + 1

    def delete_job(self, job: Json) -> None:
        self.kube.remove("jobs", job)
        for pod in self.kube.all("pods"):
            if pod["metadata"]["labels"].get("job-name") == job["metadata"]["name"]:
                pod["metadata"]["deletionTimestamp"] = "now"

    def lose_rows(self) -> None:
        """Somebody deletes `plans/<id>/` from the store."""
        self.rows_are_there = False

    def garble(self, pod: Json) -> None:
        """A line of the log is lost."""
        lines = self.kube.logs.get(pod["metadata"]["name"], "").split("\n")
        if len(lines) > 2:
            del lines[2]
        self.kube.logs[pod["metadata"]["name"]] = "\n".join(lines)

    # ---- to the end ----

    async def settle(self, passes: int = 400) -> None:
        """No more faults: everything gets on until the run is finished."""
        for _ in range(passes):
            await self.operate()
            if self.finished:
                return
            self.control_jobs()
            for pod in self.working_pods():
                self.work(pod)
            self.pass_time(5)
        raise AssertionError(f"does not end: {self.status}")


def _running(name: str) -> Json:
    return {"name": name, "state": {"running": {}}, "restartCount": 0}


def _runner(pod: Json) -> Json:
    found: Json = pod["status"]["containerStatuses"][0]
    return found


def _end(container: Json, code: int, message: str) -> None:
    container["state"] = {"terminated": {"exitCode": int(code), "reason": "Completed", "message": message}}


def _job_is_finished(job: Json) -> bool:
    return any(item["type"] == "Complete" for item in job.get("status", {}).get("conditions", ()))
