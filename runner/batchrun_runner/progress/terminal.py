"""Reporters for people: `LiveReporter` with bars on a terminal, `PlainReporter` with one line for each event."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from batchrun_api.outcomes import Outcome
from batchrun_api.plan import PlanCounts, plan_in_words
from batchrun_api.text import counted
from batchrun_runner.progress.reporter import Tally
from batchrun_runner.records import PromptResult, PromptRow
from batchrun_runner.text import one_line

_SHOWN_CHARS = 400

COLOURS = {
    Outcome.COMPLETED: "green",
    Outcome.TRUNCATED: "yellow",
    Outcome.DISCARDED: "magenta",
    Outcome.FAILED: "red",
    Outcome.INTERRUPTED: "dim",
}


def reporter_for(console: Console) -> "LiveReporter | PlainReporter":
    """The live display where somebody looks on, plain lines where output is piped."""
    return LiveReporter(console) if console.is_terminal else PlainReporter(console)


class PlainReporter:
    """One line for each event; nothing is redrawn."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._tally = Tally()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def planned(self, counts: PlanCounts, batches: int) -> None:
        self._tally.to_run = counts.to_run
        self._line(plan_in_words(counts, batches))

    def batch_started(self, number: int, prompts: int) -> None:
        self._line(f"batch {number}: {counted(prompts, 'prompt')}")

    def prompt_ended(self, number: int, row: PromptRow, result: PromptResult) -> None:
        self._tally.add(result)
        reason = f" ({_why(result)})" if result.reason else ""
        cost = f"{counted(result.api_calls, 'call')}, {counted(result.usage.total_tokens, 'token')}"
        self._line(
            f"[{self._tally.ended}/{self._tally.to_run}] batch {number}, {row.label}: "
            f"{result.outcome}{reason}, {cost}, {result.seconds:.1f} s"
        )

    def batch_ended(self, number: int) -> None:
        self._line(f"batch {number}: done")

    def note(self, text: str) -> None:
        self._line(text)

    def _line(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class LiveReporter:
    """A bar for the whole run and one for each busy batch, with outcomes and tokens beside them."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._tally = Tally()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=32),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[figures]}"),
            console=console,
        )
        self._total: TaskID | None = None
        self._batches: dict[int, TaskID] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def planned(self, counts: PlanCounts, batches: int) -> None:
        self.note(plan_in_words(counts, batches))
        self._tally.to_run = counts.to_run
        self._total = self._progress.add_task("[bold]prompts", total=counts.to_run, figures="")

    def batch_started(self, number: int, prompts: int) -> None:
        self._batches[number] = self._progress.add_task(f"batch {number}", total=prompts, figures="")

    def prompt_ended(self, number: int, row: PromptRow, result: PromptResult) -> None:
        self._tally.add(result)
        if result.outcome is Outcome.FAILED:
            self.note(f"{row.label} failed: {_why(result)}")
        if result.outcome is not Outcome.INTERRUPTED and self._total is not None:
            self._progress.update(self._batches[number], advance=1)
            self._progress.update(self._total, advance=1, figures=self._figures())

    def batch_ended(self, number: int) -> None:
        self._progress.remove_task(self._batches.pop(number))

    def note(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False)

    def _figures(self) -> str:
        shown = [f"[{COLOURS[outcome]}]{count} {outcome}[/]" for outcome, count in sorted(self._tally.outcomes.items())]
        return "  ".join([*shown, counted(self._tally.tokens, "token")])


def _why(result: PromptResult) -> str:
    """Reason and message in one line, whatever a server or an engine said in many."""
    return f"{result.reason}: {one_line(result.message, _SHOWN_CHARS)}" if result.message else str(result.reason)
