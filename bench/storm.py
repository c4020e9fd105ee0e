"""A storm of 429 for two minutes over four workers: the pace that the server sees (docs/model.md)."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

from tests.contract.model.storm import ride_out

STORM_SECONDS = 120.0


def compare(_: Path) -> Iterator[str]:
    """Lines with the figures, for a server that says how long to wait, and for one that does not."""
    for hint in (2.0, None):
        storm = asyncio.run(
            ride_out(storm_seconds=STORM_SECONDS, retry_after=hint, workers=4, in_flight=16, delay_ms=200)
        )
        yield (
            f"storm of 429 for {STORM_SECONDS:.0f} s, 4 workers with 16 prompts each, Retry-After {hint}: "
            f"{storm.failed} of {storm.prompts} prompts failed; {storm.rate_before:.0f} requests/s before, "
            f"{storm.rate_in_storm:.1f} in it, 80 % of the old pace {storm.recovery_seconds:.2f} s after it"
        )
