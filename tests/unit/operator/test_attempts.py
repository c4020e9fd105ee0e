"""The judgement over one step's attempts, over the whole product of what can be observed."""

import itertools
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.unit.operator.builders import LIMITS, NOW, RUNNER_IMAGE, ended_runner, job, pod

from batchrun_api.exit_codes import ExitCode
from batchrun_operator.reconcile.attempts import Active, Clearing, Clock, Ended, Idle, Lost, Verdict, judge
from batchrun_operator.reconcile.decision import DeleteJob, DeletePod
from batchrun_operator.reconcile.observed import Container, Job, Pod, Running, Terminated, Waiting
from batchrun_operator.reconcile.timers import leaving_key

CLOCK = Clock(NOW, {}, LIMITS)


def runner(restarts: int) -> Container:
    return Container("runner", RUNNER_IMAGE, Running(), last=Terminated(137), restarts=restarts)


GONE = replace(pod(runner=ended_runner(137)), phase="Failed", end="Evicted")
LEAVING = replace(pod(), leaving=True)

DONE = pod(runner=ended_runner(0, "m"))
BAD = pod(runner=ended_runner(2, "x"))
FRESH = pod(runner=Container("runner"))
LEFT = "the runner stopped with work left"
HELD = job(suspended=True)
HELD_AND_COUNTED = job(suspended=True, failed_pods=1)

TABLE: dict[str, tuple[list[Job], list[Pod], int, Verdict]] = {
    "nothing is there": ([], [], 0, Idle()),
    "a Job without a pod": ([job()], [], 0, Active(job(), None)),
    "a running pod": ([job()], [pod()], 0, Active(job(), pod())),
    "a pod whose runner waits": ([job()], [FRESH], 0, Active(job(), FRESH)),
    "the runner is done": ([job()], [DONE], 0, Ended(ExitCode.DONE, "m", DONE)),
    "bad input": ([job()], [BAD], 0, Ended(ExitCode.BAD_INPUT, "x", BAD)),
    "crashed once": ([job()], [pod(runner=runner(1))], 0, Active(job(), pod(runner=runner(1)))),
    "crashed five times": ([job()], [pod(runner=runner(5))], 0, Lost(1, "the runner ended 5 times")),
    "stopped with work left": ([job()], [pod(runner=ended_runner(4))], 0, Lost(1, LEFT)),
    "stopped and started again": ([job()], [pod(runner=ended_runner(4, restarted=True))], 0, Lost(1, LEFT)),
    "d03: evicted": ([job()], [GONE], 0, Lost(1, "Evicted")),
    "being deleted, the runner still at work": ([job()], [LEAVING], 0, Active(job(), LEAVING)),
    "the pod is gone and was counted": ([job(failed_pods=1)], [], 0, Lost(1, "its pod is gone")),
    "the Job is Complete and its pod gone": ([job(finished=True)], [], 0, Lost(1, "its pod is gone")),
    "the Job is being deleted": ([job(leaving=True)], [], 0, Lost(1, "its Job was deleted")),
    "the Job is held back by Kueue": ([HELD], [], 0, Active(HELD, None)),
    "Kueue took the pod away": ([HELD_AND_COUNTED], [], 0, Active(HELD_AND_COUNTED, None)),
    "the Job is gone, its pod ends": ([], [LEAVING], 0, Clearing(())),
    "the Job is gone, its pod stays": ([], [pod()], 0, Lost(1, "its Job is gone")),
    "the Job is gone, its pod was done": ([], [DONE], 0, Ended(ExitCode.DONE, "m", DONE)),
    "a lost attempt's Job remains": ([job()], [], 1, Clearing((DeleteJob("batch-0-1", "job-batch-0-1"),))),
    "a lost attempt's pod stays without a Job": ([], [pod()], 1, Clearing((DeletePod(pod().name, pod().uid),))),
    "a lost attempt's pod is leaving": ([], [LEAVING], 1, Clearing(())),
    "a lost attempt's pod is over": ([], [GONE], 1, Idle()),
    "the next attempt runs": ([job(attempt=2)], [GONE, pod(attempt=2)], 1, Active(job(attempt=2), pod(attempt=2))),
}


@pytest.mark.parametrize("case", TABLE)
def test_judgement(case: str) -> None:
    jobs, pods, lost, verdict = TABLE[case]
    assert judge(jobs, pods, lost, CLOCK) == verdict


def test_a_pod_on_a_lost_node_counts_as_gone_when_its_deletion_is_overdue() -> None:
    since = NOW - timedelta(seconds=LIMITS.overdue_seconds)
    late = Clock(NOW, {leaving_key(LEAVING): since}, LIMITS)
    assert judge([job()], [LEAVING], 0, late) == Lost(1, "its pod ended early")
    assert judge([], [LEAVING], 1, late) == Idle()


def test_d13_a_clock_that_jumps_back_makes_no_age_negative() -> None:
    clock = Clock(NOW - timedelta(minutes=20), {leaving_key(LEAVING): NOW}, LIMITS)
    assert clock.age_seconds(leaving_key(LEAVING)) == 0
    assert judge([], [LEAVING], 1, clock) == Clearing(())


RUNNERS = [
    Container("runner"),
    Container("runner", state=Waiting("CrashLoopBackOff"), last=Terminated(137), restarts=2),
    Container("runner", state=Running()),
    runner(5),
    *(ended_runner(code) for code in (0, 2, 3, 4, 70, 137)),
    *(ended_runner(code, restarted=True) for code in (2, 3, 4, 70, 137)),
]
PODS = [
    replace(pod(attempt=attempt, runner=each), phase=phase, leaving=leaving)
    for each in RUNNERS
    for attempt in (1, 2)
    for phase in ("Pending", "Running", "Succeeded", "Failed")
    for leaving in (False, True)
]
JOBS = [
    None,
    *(
        job(attempt=attempt, suspended=suspended, finished=finished, failed_pods=failed, leaving=leaving)
        for attempt in (1, 2)
        for suspended, finished, leaving in itertools.product((False, True), repeat=3)
        for failed in (0, 1)
    ),
]


def test_over_all_observations_no_attempt_is_made_while_another_may_run() -> None:
    """The whole product: each Job, each pod, none or one attempt lost."""
    seen = set()
    for each_job, each_pod, lost in itertools.product(JOBS, [None, *PODS], (0, 1)):
        jobs, pods = [each_job] if each_job else [], [each_pod] if each_pod else []
        verdict = judge(jobs, pods, lost, CLOCK)
        seen.add(type(verdict))
        if isinstance(verdict, Idle):
            assert not jobs
            assert all(item.over for item in pods)
        if isinstance(verdict, Lost):
            assert verdict.attempt == lost + 1
        if isinstance(verdict, Ended):
            assert verdict.pod.attempt == lost + 1
        if isinstance(verdict, Clearing):
            assert not any(isinstance(action, DeleteJob) for action in verdict.actions) or each_job is not None
    assert seen == {Idle, Active, Clearing, Ended, Lost}
