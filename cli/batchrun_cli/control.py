"""retry, suspend, resume: the same fields that `kubectl annotate` and `kubectl patch` write."""

from batchrun_api import names
from batchrun_api.conditions import Phase
from batchrun_cli.cluster import RunAccess
from batchrun_cli.errors import CommandError

_ENDED = frozenset({Phase.COMPLETE, Phase.FAILED, Phase.SUSPENDED})


async def retry(run: RunAccess, stamp: str, *, force: bool) -> str:
    """Plan again; `stamp` is the annotation's new value."""
    phase = (await run.read()).status.phase
    if phase not in _ENDED and not force:
        raise CommandError(
            f"{run.what} is {phase or 'Pending'}: failed prompts run again once it has ended; "
            "--force stops its pods and plans again now"
        )
    await run.change({"metadata": {"annotations": {names.ANNOTATION_RETRY: stamp}}})
    return f"{run.name}: planned again, what is stored stays"


async def set_suspended(run: RunAccess, suspended: bool) -> str:
    """Set `spec.suspend`."""
    if (await run.read()).spec.suspend == suspended:
        return f"{run.name}: is {'suspended' if suspended else 'not suspended'} already"
    await run.change({"spec": {"suspend": suspended}})
    return f"{run.name}: " + ("running batches finish, no more are started" if suspended else "goes on")
