"""Figures of a run as sums that can be added to each other, and `statistics.json` made of them."""

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add
from typing import Any

import orjson

from batchrun_api.outcomes import Outcome
from batchrun_api.toolsets import ALL_TOOLS
from batchrun_runner.ledger.entry import USAGE_NAMES
from batchrun_runner.merge.pass_at_k import RewardTally, Sampled

_KEPT = frozenset({Outcome.COMPLETED, Outcome.TRUNCATED})
_NOTHING: Mapping[str, list[int]] = {}


@dataclass(slots=True)
class Figures:
    """Sums over prompts. Discarded and failed ones do not count into tools and reasoning, only into what they cost."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    """Of prompts that did not complete."""
    discarded: Counter[str] = field(default_factory=Counter)
    """Discarded prompts by reason."""
    tools: dict[str, list[int]] = field(default_factory=dict)
    """Calls by tool: count, success, failure."""
    assistant_turns: int = 0
    turns_with_reasoning: int = 0
    usage: list[int] = field(default_factory=lambda: [0] * len(USAGE_NAMES))
    """Tokens in the order of USAGE_NAMES."""
    api_calls: int = 0
    invalid_tool_calls: int = 0
    rewards: int = 0
    """Prompts that have a reward, those that a filter dropped included."""
    reward_sum: float = 0.0
    sampled: Sampled = field(default_factory=Counter)
    """Prompts by their samples with a reward and those of them that passed."""
    seconds: float = 0.0
    """Time spent in prompts, added up; the three below are parts of it."""
    model_seconds: float = 0.0
    tool_seconds: float = 0.0
    sandbox_seconds: float = 0.0
    starts: "array[float]" = field(default_factory=lambda: array("d"))
    ends: "array[float]" = field(default_factory=lambda: array("d"))
    """When each prompt was worked on, in seconds since the epoch, where that is known."""

    def add(self, ended: Iterable[tuple[bytes, Outcome, str, int]]) -> None:
        """Count prompts by their ledger entries, each with its outcome and reason under today's filters and the row
        number of its prompt, of which all samples follow each other.

        Reads the lines by itself and adds in local variables: with whole LedgerEntries and attributes this would be
        half of the time of a merge.
        """
        assistant_turns = turns_with_reasoning = invalid_tool_calls = api_calls = 0
        seconds = model_seconds = tool_seconds = sandbox_seconds = 0.0
        tools = defaultdict(lambda: [0, 0, 0], self.tools)
        ends: Counter[tuple[Outcome, str]] = Counter()
        tally = RewardTally(self.sampled)
        for line, outcome, reason, index in ended:
            entry: dict[str, Any] = orjson.loads(line)
            read = entry.get
            ends[outcome, reason] += 1
            if outcome in _KEPT:
                for tool, (count, success, failure) in read("tool_stats", _NOTHING).items():
                    sums = tools[tool]
                    sums[0] += count
                    sums[1] += success
                    sums[2] += failure
                assistant_turns += read("assistant_turns", 0)
                turns_with_reasoning += read("turns_with_reasoning", 0)
                invalid_tool_calls += read("invalid_tool_calls", 0)
            if "usage" in entry:
                _add_to(self.usage, entry["usage"])
            api_calls += read("api_calls", 0)
            if "reward" in entry:
                self.rewards += 1
                self.reward_sum += entry["reward"]
                tally.add(index, entry["reward"])
            took = read("seconds", 0.0)
            seconds += took
            model_seconds += read("model_seconds", 0.0)
            tool_seconds += read("tool_seconds", 0.0)
            sandbox_seconds += read("sandbox_seconds", 0.0)
            if ended_at := read("ended_at"):
                self.starts.append(ended_at - took)
                self.ends.append(ended_at)
        tally.close()
        for (outcome, reason), count in ends.items():
            self.outcomes[outcome] += count
            if outcome is not Outcome.COMPLETED:
                self.reasons[reason] += count
            if outcome is Outcome.DISCARDED:
                self.discarded[reason] += count
        self.tools = dict(tools)
        self.assistant_turns += assistant_turns
        self.turns_with_reasoning += turns_with_reasoning
        self.invalid_tool_calls += invalid_tool_calls
        self.api_calls += api_calls
        self.seconds += seconds
        self.model_seconds += model_seconds
        self.tool_seconds += tool_seconds
        self.sandbox_seconds += sandbox_seconds

    def __add__(self, other: "Figures") -> "Figures":
        return Figures(
            outcomes=self.outcomes + other.outcomes,
            reasons=self.reasons + other.reasons,
            discarded=self.discarded + other.discarded,
            tools={
                tool: _sums(self.tools.get(tool, [0, 0, 0]), other.tools.get(tool, [0, 0, 0]))
                for tool in {**self.tools, **other.tools}
            },
            assistant_turns=self.assistant_turns + other.assistant_turns,
            turns_with_reasoning=self.turns_with_reasoning + other.turns_with_reasoning,
            usage=_sums(self.usage, other.usage),
            api_calls=self.api_calls + other.api_calls,
            invalid_tool_calls=self.invalid_tool_calls + other.invalid_tool_calls,
            rewards=self.rewards + other.rewards,
            reward_sum=self.reward_sum + other.reward_sum,
            sampled=self.sampled + other.sampled,
            seconds=self.seconds + other.seconds,
            model_seconds=self.model_seconds + other.model_seconds,
            tool_seconds=self.tool_seconds + other.tool_seconds,
            sandbox_seconds=self.sandbox_seconds + other.sandbox_seconds,
            starts=self.starts + other.starts,
            ends=self.ends + other.ends,
        )

    @property
    def tool_calls(self) -> int:
        """Calls of tools that exist, in samples that are kept."""
        return sum(count for count, _, _ in self.tools.values())

    @property
    def total_tokens(self) -> int:
        """Prompt and completion tokens."""
        return self.usage[USAGE_NAMES.index("prompt_tokens")] + self.usage[USAGE_NAMES.index("completion_tokens")]

    @property
    def active_seconds(self) -> float:
        """Time in which at least one prompt was being worked on, over all resumes."""
        active = 0.0
        reached = 0.0
        for start, end in sorted(zip(self.starts, self.ends, strict=True)):
            if end > reached:
                active += end - max(start, reached)
                reached = end
        return active

    @property
    def wall_seconds(self) -> float:
        """From the first start to the last end, pauses between resumes included."""
        return max(self.ends) - min(self.starts) if self.ends else 0.0


def percent(part: int, whole: int) -> float:
    """Share with two decimals; 0.0 over nothing. Always a float."""
    return round(100.0 * part / whole, 2) if whole else 0.0


def tool_statistics(tools: dict[str, list[int]]) -> dict[str, Any]:
    """By tool that was called, in the order of all tools; own ones by name behind them."""
    statistics = {}
    for tool in [*ALL_TOOLS, *sorted(tools.keys() - set(ALL_TOOLS))]:
        if tool in tools:
            count, success, failure = tools[tool]
            statistics[tool] = {
                "count": count,
                "success": success,
                "failure": failure,
                "success_rate": percent(success, success + failure),
                "failure_rate": percent(failure, success + failure),
            }
    return statistics


def reasoning_statistics(figures: Figures) -> dict[str, Any]:
    """The reference's counts and the share."""
    return {
        "total_assistant_turns": figures.assistant_turns,
        "turns_with_reasoning": figures.turns_with_reasoning,
        "turns_without_reasoning": figures.assistant_turns - figures.turns_with_reasoning,
        "reasoning_rate": percent(figures.turns_with_reasoning, figures.assistant_turns),
    }


def reward_statistics(figures: Figures) -> dict[str, Any]:
    """How many prompts have a reward, and its mean with six decimals; None over nothing."""
    mean = round(figures.reward_sum / figures.rewards, 6) if figures.rewards else None
    return {"count": figures.rewards, "mean": mean}


def token_statistics(figures: Figures) -> dict[str, int]:
    """Tokens of all prompts, discarded and failed ones included: they were paid for."""
    return {**dict(zip(USAGE_NAMES, figures.usage, strict=True)), "total_tokens": figures.total_tokens}


def _add_to(sums: list[int], more: Sequence[int]) -> None:
    sums[:] = map(add, sums, more)


def _sums(one: Sequence[int], other: Sequence[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]
