"""Which toolsets a prompt gets: drawn from a distribution, and the same ones each time."""

import hashlib
from collections.abc import Collection, Mapping, Sequence

from batchrun_api.availability import available
from batchrun_api.checks import distribution_of
from batchrun_runner.settings import RunSettings


def draw_toolsets(
    distribution: Mapping[str, int], available: Collection[str], seed_parts: Sequence[str]
) -> tuple[str, ...]:
    """The toolsets of one prompt, in the distribution's order.

    Each available one is drawn independently with its probability in percent. None drawn: the most probable one, the
    first listed on a tie. Empty only if nothing with a probability above 0 is available. `seed_parts`: run name and
    prompt key.
    """
    possible = {name: percent for name, percent in distribution.items() if percent > 0 and name in available}
    drawn = tuple(name for name, percent in possible.items() if _percentile(seed_parts, name) < percent)
    if drawn or not possible:
        return drawn
    return (max(possible, key=lambda name: possible[name]),)


class Draws:
    """What the prompts of a run draw."""

    def __init__(self, settings: RunSettings) -> None:
        self._distribution = distribution_of(settings.spec) or {}
        self._available = available(settings.spec)
        self._run_name = settings.run_name
        # Planning asks for each prompt, and most runs have none.
        self._can_have_browser = "browser" in self._distribution and "browser" in self._available

    def of(self, key: str) -> tuple[str, ...]:
        """The toolsets of the prompt with this key."""
        return draw_toolsets(self._distribution, self._available, (self._run_name, key))

    def have_browser(self, key: str) -> bool:
        """Whether that prompt gets the browser."""
        return self._can_have_browser and "browser" in self.of(key)


def _percentile(seed_parts: Sequence[str], name: str) -> float:
    """From 0 up to 100; of its own for each toolset, so that one more toolset changes no other's draw."""
    seed = "\x1f".join((*seed_parts, name)).encode("utf-8", "replace")
    return int.from_bytes(hashlib.sha256(seed).digest()[:8]) / 2**64 * 100
