"""How many prompts have an outcome. Hints from running pods make it live; what is recorded is certain."""

from collections import Counter

from batchrun_api.messages import parse_sandbox_message
from batchrun_api.names import SANDBOX_CONTAINER_PREFIX
from batchrun_api.outcomes import Outcome
from batchrun_api.plan import Plan
from batchrun_api.status import PromptCounts
from batchrun_operator.reconcile.observed import Pod, Terminated
from batchrun_operator.reconcile.worksheet import Worksheet


def count_progress(sheet: Worksheet, plan: Plan, recorded: set[int], live_pods: list[Pod]) -> None:
    """Set `prompts` and `progress`. Never falls within a plan: a killed pod takes only its messages along."""
    sizes = {batch.number: len(batch.images) for batch in plan.batches}
    live: Counter[Outcome] = Counter()
    for pod in live_pods:
        if pod.batch is not None and pod.batch not in recorded:
            live += finished_in(pod, sizes.get(pod.batch, 0))
    known, before = sheet.plan_status, plan.counts
    counted = _bounded(
        plan,
        completed=before.completed + known.completed + live[Outcome.COMPLETED],
        truncated=before.truncated + known.truncated + live[Outcome.TRUNCATED],
        discarded=before.discarded + known.discarded + live[Outcome.DISCARDED],
        failed=known.failed + live[Outcome.FAILED],
    )
    shown = sheet.status.prompts
    if shown.total == counted.total and with_outcome(shown) > with_outcome(counted):
        counted = shown
    sheet.update(prompts=counted, progress=f"{with_outcome(counted)}/{counted.total}")


def with_outcome(prompts: PromptCounts) -> int:
    """Prompts that have one."""
    return prompts.completed + prompts.truncated + prompts.discarded + prompts.failed


def finished_in(pod: Pod, size: int) -> Counter[Outcome]:
    """Outcomes of the prompts that a batch's pod has ended so far, as its sandboxes say."""
    found: Counter[Outcome] = Counter()
    for container in pod.containers:
        if not container.name.startswith(SANDBOX_CONTAINER_PREFIX) or not isinstance(container.state, Terminated):
            continue
        message = parse_sandbox_message(container.state.message)
        # Any command can write a message; the exit code comes from sandboxd alone.
        if container.state.exit_code == 0 and message is not None and message[0] is not Outcome.INTERRUPTED:
            found[message[0]] += 1
    return found if found.total() <= size else Counter()


def _bounded(plan: Plan, *, completed: int, truncated: int, discarded: int, failed: int) -> PromptCounts:
    """The counts with the rest as not run; hints can never make more than there are."""
    left = plan.counts.total
    taken = []
    for number in (completed, truncated, discarded, failed):
        taken.append(min(number, left))
        left -= taken[-1]
    return PromptCounts(
        total=plan.counts.total,
        completed=taken[0],
        truncated=taken[1],
        discarded=taken[2],
        failed=taken[3],
        not_run=left,
        orphaned=plan.counts.orphaned,
    )
