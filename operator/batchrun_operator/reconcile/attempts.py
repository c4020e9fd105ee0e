"""How the current attempt of a plan, a batch or a merge stands. The same judgement for all three (docs/decisions/0002).

Attempts are counted from 1; `lost` attempts are over, the current one is `lost + 1`. An attempt that vanished without
a trace was perhaps never made: it is made (again) under its own number, for the ledger knows what is done.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from batchrun_api.exit_codes import ExitCode
from batchrun_api.names import RUNNER_CONTAINER
from batchrun_operator.reconcile.decision import Action, DeleteJob, DeletePod
from batchrun_operator.reconcile.observed import Container, Job, Pod, Terminated
from batchrun_operator.reconcile.timers import leaving_key
from batchrun_operator.settings import Limits

VERDICT_CODES = frozenset({ExitCode.DONE, ExitCode.BAD_INPUT, ExitCode.BLOCKED})


@dataclass(frozen=True, slots=True)
class Idle:
    """Nothing of it exists: the attempt may be made."""


@dataclass(frozen=True, slots=True)
class Clearing:
    """What is left of earlier attempts must go first."""

    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Active:
    """It goes on."""

    job: Job | None
    pod: Pod | None
    """None: not made yet."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The runner said its last word."""

    code: ExitCode
    """DONE, BAD_INPUT or BLOCKED."""
    message: str
    pod: Pod


@dataclass(frozen=True, slots=True)
class Lost:
    """It will not end by itself any more."""

    attempt: int
    why: str


Verdict = Idle | Clearing | Active | Ended | Lost


@dataclass(frozen=True, slots=True)
class Clock:
    """The time and what it is compared with."""

    now: datetime
    first_seen: Mapping[str, datetime]
    limits: Limits

    def age_seconds(self, key: str) -> float:
        """How long a timer's key has been seen; 0 for a new one, never negative."""
        return max(0.0, (self.now - self.first_seen.get(key, self.now)).total_seconds())


def judge(jobs: Sequence[Job], pods: Sequence[Pod], lost: int, clock: Clock) -> Verdict:
    """The verdict over one step, from its own Jobs and pods."""
    attempt = lost + 1
    current = [job for job in jobs if job.attempt == attempt]
    own_pods = [pod for pod in pods if pod.attempt == attempt]
    ended = _last_word(own_pods)
    if ended is not None:
        return ended
    other_jobs, other_pods = [job for job in jobs if job.attempt != attempt], [p for p in pods if p.attempt != attempt]
    remains = _remains(other_jobs, other_pods, clock)
    if remains is not None:
        return Clearing(remains)
    living = [pod for pod in own_pods if not is_gone(pod, clock)]
    if not current:
        return _without_job(own_pods, living, attempt)
    return _with_job(current[0], own_pods, living, clock)


def is_gone(pod: Pod, clock: Clock) -> bool:
    """True: it ended, or its deletion is long overdue because its node is lost."""
    return pod.over or (pod.leaving and clock.age_seconds(leaving_key(pod)) >= clock.limits.overdue_seconds)


def runner_of(pod: Pod) -> Container:
    """The runner container, also before the kubelet has said anything of it."""
    return pod.container(RUNNER_CONTAINER) or Container(RUNNER_CONTAINER)


def lost_runner(pod: Pod) -> Terminated | None:
    """How the pod's runner ended before it was started again in its place, where that was not its own doing."""
    end = runner_of(pod).last
    return None if end is None or end.exit_code in (*VERDICT_CODES, ExitCode.WORK_LEFT) else end


def _endings(pod: Pod) -> Iterable[Terminated]:
    runner = runner_of(pod)
    if isinstance(runner.state, Terminated):
        yield runner.state
    if runner.last is not None:
        yield runner.last


def _last_word(pods: Iterable[Pod]) -> Ended | None:
    """The kubelet restarts a runner that exits non-zero, so its earlier end counts as well. Done comes first."""
    words = [
        Ended(ExitCode(end.exit_code), end.message, pod)
        for pod in pods
        for end in _endings(pod)
        if end.exit_code in VERDICT_CODES
    ]
    return min(words, key=lambda word: word.code, default=None)


def _remains(jobs: Sequence[Job], pods: Sequence[Pod], clock: Clock) -> tuple[Action, ...] | None:
    """What to delete of other attempts; None when nothing of them lives."""
    living = [pod for pod in pods if not is_gone(pod, clock)]
    if not jobs and not living:
        return None
    with_job = {job.attempt for job in jobs}
    orphans = [pod for pod in living if pod.attempt not in with_job and not pod.leaving]
    return (
        *(DeleteJob(job.name, job.uid) for job in jobs if not job.leaving),
        *(DeletePod(pod.name, pod.uid) for pod in orphans),
    )


def _without_job(pods: Sequence[Pod], living: Sequence[Pod], attempt: int) -> Verdict:
    if any(not pod.leaving for pod in living):
        return Lost(attempt, "its Job is gone")
    if living:
        return Clearing(())
    return Lost(attempt, "its Job is gone") if pods else Idle()


def _with_job(job: Job, pods: Sequence[Pod], living: Sequence[Pod], clock: Clock) -> Verdict:
    for pod in living:
        why = _hopeless(pod, clock)
        if why:
            return Lost(job.attempt, why)
    if living:
        staying = [pod for pod in living if not pod.leaving]
        return Active(job, (staying or living)[0])
    if job.leaving:
        return Lost(job.attempt, "its Job was deleted")
    if job.suspended and not job.finished:
        return Active(job, None)
    if pods:
        return Lost(job.attempt, _evicted(pods[0]) or pods[0].end or "its pod ended early")
    if job.finished or job.failed_pods > 0:
        return Lost(job.attempt, "its pod is gone")
    return Active(job, None)


def _evicted(pod: Pod) -> str:
    """The kubelet's words; empty: it did not end the pod. A runner that was stopped by that knows nothing of it."""
    return f"evicted: {pod.eviction}" if pod.eviction else ""


def _hopeless(pod: Pod, clock: Clock) -> str:
    """Why a living pod will not do; empty: it may."""
    if any(end.exit_code == ExitCode.WORK_LEFT for end in _endings(pod)):
        return _evicted(pod) or "the runner stopped with work left"
    restarts = runner_of(pod).restarts
    if restarts >= clock.limits.max_runner_restarts:
        return f"the runner ended {restarts} times"
    return ""
