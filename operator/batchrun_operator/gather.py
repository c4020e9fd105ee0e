"""Look: from the API to what is observed. Reads the plan's log and ConfigMaps only when they are needed."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from batchrun_api import frames, names
from batchrun_api.conditions import Reason
from batchrun_api.exit_codes import ExitCode
from batchrun_api.hints import ModelHint
from batchrun_operator.kube import KubeError, NotFound, Refused
from batchrun_operator.manifests.meta import Role, is_owned_by
from batchrun_operator.manifests.network_policy import Surroundings, policy_name
from batchrun_operator.manifests.plan_shards import ShardsDamaged, read_shards, shard_count, shard_name
from batchrun_operator.memory import RunMemory
from batchrun_operator.own_distribution import with_distribution
from batchrun_operator.ports import Api, Json
from batchrun_operator.reconcile import timers
from batchrun_operator.reconcile.attempts import Clock, runner_of
from batchrun_operator.reconcile.observed import (
    Job,
    Network,
    Observed,
    PlanLog,
    Pod,
    Policy,
    Refusal,
    Run,
    Running,
    Shards,
    Terminated,
)
from batchrun_operator.reconcile.timers import podless_key, stuck_key
from batchrun_operator.reconcile.views import read_jobs, read_pods, read_run
from batchrun_operator.settings import Limits
from batchrun_operator.surroundings import Resolve, look_around, resolve

LOG_TAIL_LINES = 2000
"""More lines than the largest plan has."""
LOG_LIMIT_BYTES = 32 * 1024 * 1024
HINT_TAIL_LINES = 64
HINT_LIMIT_BYTES = 256 * 1024
_SAMPLED_PODS = 3
"""All pods of a run share one model server and one key, so a few of them tell how it is."""
_ASKED_JOBS = 3
"""Of so many Jobs without a pod, or pods that do not start, the events are read in one pass: one reason is enough."""


async def gather(
    api: Api, raw_run: Json, memory: RunMemory, now: datetime, limits: Limits, resolve: Resolve = resolve
) -> Observed:
    """All that a decision needs. Raises KubeError: what cannot be read is not known."""
    run = read_run(raw_run)
    memory.belong_to(run.uid)
    run, no_distribution = await with_distribution(api, run, memory)
    selector = f"{names.LABEL_RUN_UID}={run.uid}"
    jobs = read_jobs(await api.find("jobs", run.namespace, labels=selector))
    pods = read_pods(await api.find("pods", run.namespace, labels=selector))
    shards = await _shards(api, run, memory)
    held = timers.keys(Observed(run, jobs, pods))
    first_seen = memory.first_seen.update(held, now)
    clock = Clock(now, first_seen, limits)
    plan_log = await _plan_log(api, run, pods, memory) if shards.plan is None and not shards.damage else None
    is_planned = shards.plan is not None or plan_log is not None
    return Observed(
        run=run,
        jobs=jobs,
        pods=pods,
        shards=shards,
        plan_log=plan_log,
        network=await _network(api, run, memory, clock, resolve) if is_planned and not run.is_finished else None,
        model_hints=await _model_hints(api, run, pods, memory, clock),
        no_distribution=no_distribution,
        refusals=memory.refusals | await _said_in_events(api, run, jobs, pods, clock),
        first_seen=first_seen,
    )


async def _shards(api: Api, run: Run, memory: RunMemory) -> Shards:
    if memory.plan is not None and memory.plan_id == run.plan_id:
        return Shards(memory.plan)
    try:
        first = await api.get("configmaps", run.namespace, shard_name(run.name, run.uid, run.plan_id, 0))
    except NotFound:
        return Shards(None)
    try:
        found = [first]
        for index in range(1, shard_count(first)):
            name = shard_name(run.name, run.uid, run.plan_id, index)
            found.append(await api.get("configmaps", run.namespace, name))
        plan = read_shards(found)
    except (NotFound, ShardsDamaged) as error:
        return Shards(None, damage=str(error))
    memory.plan, memory.plan_id = plan, run.plan_id
    return Shards(plan)


async def _network(api: Api, run: Run, memory: RunMemory, clock: Clock, resolve: Resolve) -> Network:
    name = policy_name(run.name, run.uid)
    try:
        found: Json | None = await api.get("networkpolicies", run.namespace, name)
    except NotFound:
        found = None
    except Refused as error:
        return Network(fault=error.message)
    policy = None
    if found is not None:
        policy = Policy(found["metadata"]["uid"], found["spec"], is_owned_by(found, run.uid))
    wanted = run.spec is not None and run.spec.sandbox.network.is_internet_only
    return Network(policy, await _around(api, run, memory, clock, resolve) if wanted else None)


async def _around(api: Api, run: Run, memory: RunMemory, clock: Clock, resolve: Resolve) -> Surroundings:
    known = memory.around
    if (
        known is None
        or known[0] != run.plan_id
        or (clock.now - known[1]).total_seconds() >= clock.limits.around_seconds
    ):
        known = memory.around = (run.plan_id, clock.now, await look_around(api, run, memory, clock.now, resolve))
    return known[2]


async def _plan_log(api: Api, run: Run, pods: Sequence[Pod], memory: RunMemory) -> PlanLog | None:
    """What the newest plan pod that ended well has printed; None: there is no such pod."""
    done = [pod for pod in pods if pod.role is Role.PLAN and pod.plan_id == run.plan_id and _is_done(pod)]
    if not done:
        return None
    pod = max(done, key=lambda item: item.attempt)
    if memory.plan_log is not None and memory.plan_log_pod == pod.uid:
        return memory.plan_log
    try:
        memory.plan_log = await _read_plan_log(api, run, pod)
    except NotFound:  # the pod went in this moment
        return None
    memory.plan_log_pod = pod.uid
    return memory.plan_log


async def _read_plan_log(api: Api, run: Run, pod: Pod) -> PlanLog:
    text = await api.read_log(
        run.namespace, pod.name, names.RUNNER_CONTAINER, tail_lines=LOG_TAIL_LINES, limit_bytes=LOG_LIMIT_BYTES
    )
    try:
        return PlanLog(pod.attempt, frames.decode(text))
    except frames.BrokenFrames as error:
        return PlanLog(pod.attempt, None, error=str(error))


async def _model_hints(
    api: Api, run: Run, pods: Sequence[Pod], memory: RunMemory, clock: Clock
) -> Mapping[str, ModelHint]:
    """A log that cannot be read says nothing: hints are for people."""
    working = {pod.name: pod for pod in pods if pod.plan_id == run.plan_id and _is_at_work(pod)}
    last = memory.hints_read_at
    if working and (last is None or (clock.now - last).total_seconds() >= clock.limits.hints_seconds):
        memory.hints_read_at = clock.now
        found = {name: await _model_hint(api, run, working[name]) for name in _to_look_at(sorted(working), memory)}
        memory.model_hints = {name: hint for name, hint in found.items() if hint is not None}
    return {name: hint for name, hint in memory.model_hints.items() if name in working}


def _to_look_at(names_at_work: Sequence[str], memory: RunMemory) -> list[str]:
    """Those that were held up at the last look, and the next in turn."""
    held_up = [name for name in names_at_work if name in memory.model_hints and memory.model_hints[name].reason]
    chosen = held_up[: _SAMPLED_PODS - 1]
    others = [name for name in names_at_work if name not in chosen]
    for _ in range(min(_SAMPLED_PODS - len(chosen), len(others))):
        chosen.append(others[memory.hints_turn % len(others)])
        memory.hints_turn += 1
    return chosen


async def _model_hint(api: Api, run: Run, pod: Pod) -> ModelHint | None:
    try:
        text = await api.read_log(
            run.namespace, pod.name, names.RUNNER_CONTAINER, tail_lines=HINT_TAIL_LINES, limit_bytes=HINT_LIMIT_BYTES
        )
    except KubeError:
        return None
    return ModelHint.newest(text)


def _is_at_work(pod: Pod) -> bool:
    return pod.role is Role.BATCH and not pod.leaving and isinstance(runner_of(pod).state, Running)


def _is_done(pod: Pod) -> bool:
    state = runner_of(pod).state
    return isinstance(state, Terminated) and state.exit_code == ExitCode.DONE


async def _said_in_events(
    api: Api, run: Run, jobs: Sequence[Job], pods: Sequence[Pod], clock: Clock
) -> dict[str, Refusal]:
    """Why Jobs have no pods and pods do not start: such failures exist only as events. By the name of Job or pod."""
    podless = [
        job
        for job in jobs
        if not (job.finished or job.leaving or job.suspended) and _has_waited(podless_key(job), clock)
    ]
    stuck = [
        pod for pod in pods if not (pod.over or pod.leaving or pod.unschedulable) and _has_waited(stuck_key(pod), clock)
    ]
    found: dict[str, Refusal] = {}
    for job in podless[:_ASKED_JOBS]:
        if words := await _newest_event(api, run, job.uid, "FailedCreate"):
            found[job.name] = Refusal.of(words)
    for pod in stuck[:_ASKED_JOBS]:
        if words := await _newest_event(api, run, pod.uid, "FailedMount"):
            found[pod.name] = Refusal(Reason.CONTAINER_CONFIG_ERROR.value, words)
    return found


def _has_waited(key: str, clock: Clock) -> bool:
    return key in clock.first_seen and clock.age_seconds(key) >= clock.limits.trouble_seconds


async def _newest_event(api: Api, run: Run, uid: str, reason: str) -> str:
    events = await api.find("events", run.namespace, fields=f"involvedObject.uid={uid},reason={reason}")
    newest = max(events, key=lambda event: str(event.get("lastTimestamp") or ""), default={})
    return str(newest.get("message") or "")
