"""`logs RUN PROMPT`: what the runners of a run say of one prompt."""

from collections.abc import Iterator
from typing import Any

import orjson

from batchrun_cli.cluster import RunAccess
from batchrun_cli.errors import CommandError


def records(log: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each line of a runner's log that is JSON, as text and as what it says."""
    for line in log.splitlines():
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            continue
        if isinstance(record, dict):
            yield line, record


async def of_prompt(run: RunAccess, prompt: int) -> list[tuple[str, dict[str, Any]]]:
    """Lines about the row with this index, oldest pod first. Raises CommandError where there are none."""
    seen = await run.read()
    pods = sorted(await run.batch_pods(seen.uid), key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    found = []
    for pod in pods:
        log = await run.runner_log(pod["metadata"]["name"])
        found += [(line, record) for line, record in records(log or "") if record.get("prompt_index") == prompt]
    if not found:
        raise CommandError(
            f"no log tells of prompt {prompt} of {run.what}: it has not ended yet, its batch's pod is gone "
            f"({len(pods)} are there), or logging.level is above Info"
        )
    return found
