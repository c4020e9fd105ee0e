"""What a run tells while it is going on."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from batchrun_api.outcomes import Outcome
from batchrun_api.plan import PlanCounts
from batchrun_runner.records import PromptResult, PromptRow


class Reporter(Protocol):
    """Told of each step, in order; must not raise."""

    def planned(self, counts: PlanCounts, batches: int) -> None:
        """The plan is made: `batches` new batches will run."""

    def batch_started(self, number: int, prompts: int) -> None:
        """A batch begins with `prompts` prompts left to do."""

    def prompt_ended(self, number: int, row: PromptRow, result: PromptResult) -> None:
        """A prompt of batch `number` has its outcome and is stored (interrupted ones are not)."""

    def batch_ended(self, number: int) -> None:
        """A batch is over."""

    def note(self, text: str) -> None:
        """Something worth one line."""


class SilentReporter:
    """Says nothing: in a pod the log and the termination messages speak."""

    def planned(self, counts: PlanCounts, batches: int) -> None: ...
    def batch_started(self, number: int, prompts: int) -> None: ...
    def prompt_ended(self, number: int, row: PromptRow, result: PromptResult) -> None: ...
    def batch_ended(self, number: int) -> None: ...
    def note(self, text: str) -> None: ...


@dataclass
class Tally:
    """The running figures of a run on one machine."""

    to_run: int = 0
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    tokens: int = 0

    def add(self, result: PromptResult) -> None:
        """One more prompt has ended."""
        self.outcomes[result.outcome] += 1
        self.tokens += result.usage.total_tokens

    @property
    def ended(self) -> int:
        """Prompts that ended in this process, interrupted ones not counted."""
        return sum(self.outcomes.values()) - self.outcomes[Outcome.INTERRUPTED]
