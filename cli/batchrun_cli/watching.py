"""`watch`: look at a run until it has ended."""

import asyncio
from collections.abc import Callable

from batchrun_api.names import SANDBOX_CONTAINER_PREFIX
from batchrun_cli.cluster import RunAccess, Seen
from batchrun_cli.display import Busy, Display, View
from batchrun_cli.errors import CANNOT, SOME_FAILED, CommandError
from batchrun_cli.prompt_logs import records
from batchrun_operator.reconcile.observed import Pod
from batchrun_operator.reconcile.progress import finished_in
from batchrun_operator.reconcile.views import read_pods

_POLL_SECONDS = 1.0
_WINDOW_SECONDS = 120.0


class Rate:
    """Prompts in a minute, over the last two minutes that were looked at."""

    def __init__(self) -> None:
        self._plan = ""
        self._seen: list[tuple[float, int]] = []

    def add(self, now: float, plan: str, ended: int) -> float | None:
        """The rate with this observation; None until prompts were seen to end."""
        if plan != self._plan:
            self._plan, self._seen = plan, []
        self._seen.append((now, ended))
        while len(self._seen) > 2 and now - self._seen[1][0] >= _WINDOW_SECONDS:
            del self._seen[0]
        (since, before), gained = self._seen[0], ended - self._seen[0][1]
        return gained / (now - since) * 60 if now > since and gained > 0 and before >= 0 else None


class Tokens:
    """Tokens that the runners' logs tell of. A pod's count stays when the pod is gone."""

    def __init__(self) -> None:
        self._by_pod: dict[str, int] = {}
        self._read_at: dict[str, str] = {}
        self._is_allowed = True

    async def add(self, run: RunAccess, pods: list[Pod]) -> int | None:
        """The sum so far; None where logs may not be read or tell nothing."""
        for pod in pods if self._is_allowed else ():
            if self._read_at.get(pod.uid) == pod.resource_version:
                continue  # a prompt that ends changes its sandbox's container, and so the pod
            self._read_at[pod.uid] = pod.resource_version
            try:
                log = await run.runner_log(pod.name)
            except CommandError:
                self._is_allowed = False
                break
            if log is not None:
                told = sum(int(record.get("tokens") or 0) for _, record in records(log))
                self._by_pod[pod.uid] = max(told, self._by_pod.get(pod.uid, 0))
        return sum(self._by_pod.values()) if any(self._by_pod.values()) else None


async def watch(run: RunAccess, display: Display, now: Callable[[], float]) -> int:
    """Shows the run until it has ended; the exit code."""
    rate, tokens, uid = Rate(), Tokens(), ""
    while True:
        seen = await run.read()
        if uid and seen.uid != uid:
            raise CommandError(f"{run.what} was deleted and made again while it was watched")
        uid = seen.uid
        code = exit_code(seen)
        pods = list(read_pods(await run.batch_pods(uid)))
        display.show(await _view(run, seen, pods, tokens, rate, now()))
        if code is not None:
            return code
        await asyncio.sleep(_POLL_SECONDS)


async def _view(run: RunAccess, seen: Seen, pods: list[Pod], tokens: Tokens, rate: Rate, now: float) -> View:
    status = seen.status
    plan = status.plan.id if status.plan else ""
    counted = await tokens.add(run, pods)
    if status.summary is not None and exit_code(seen) is not None:
        counted = status.summary.total_tokens
    return View(
        name=run.name,
        status=status,
        busy=busy_batches(pods, plan),
        tokens=counted,
        per_minute=rate.add(now, plan, status.prompts.total - status.prompts.not_run),
    )


def busy_batches(pods: list[Pod], plan: str) -> list[Busy]:
    """Batches of this plan whose pods still work."""
    found = []
    for pod in pods:
        if pod.batch is None or pod.over or pod.plan_id != plan:
            continue
        prompts = sum(container.name.startswith(SANDBOX_CONTAINER_PREFIX) for container in pod.containers)
        found.append(Busy(pod.batch, finished_in(pod, prompts).total(), prompts))
    return sorted(found, key=lambda item: item.number)


def exit_code(seen: Seen) -> int | None:
    """None while the run may go on. What is over for an older spec is not over."""
    prompts = seen.status.prompts
    if seen.condition("Failed"):
        return CANNOT
    if seen.condition("Complete"):
        return SOME_FAILED if prompts.failed or prompts.not_run else 0
    return None
