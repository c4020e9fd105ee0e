"""What `watch` shows: bars on a terminal, one line for each change elsewhere."""

from dataclasses import dataclass, field
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from batchrun_api.outcomes import Outcome
from batchrun_api.status import BatchRunStatus, Condition
from batchrun_api.text import counted
from batchrun_runner.progress.terminal import COLOURS
from batchrun_runner.text import one_line

_BAR_WIDTH = 32
_BATCHES_SHOWN = 12
_MESSAGE_CHARS = 300


@dataclass(frozen=True, slots=True)
class Busy:
    """A batch that is being worked on."""

    number: int
    ended: int
    prompts: int


@dataclass(frozen=True, slots=True)
class View:
    """Everything that is shown at one moment."""

    name: str
    status: BatchRunStatus
    busy: list[Busy] = field(default_factory=list)
    tokens: int | None = None
    """None: not known."""
    per_minute: float | None = None
    """Prompts that get an outcome in a minute; None: not known yet."""

    @property
    def ended(self) -> int:
        """Prompts with an outcome."""
        counts = self.status.prompts
        return counts.total - counts.not_run

    @property
    def seconds_left(self) -> float | None:
        """None: nobody knows."""
        return self.status.prompts.not_run / self.per_minute * 60 if self.per_minute else None

    def outcomes(self) -> list[tuple[Outcome, int]]:
        """Those that there are."""
        counts = self.status.prompts
        found = [
            (Outcome.COMPLETED, counts.completed),
            (Outcome.TRUNCATED, counts.truncated),
            (Outcome.DISCARDED, counts.discarded),
            (Outcome.FAILED, counts.failed),
        ]
        return [(outcome, count) for outcome, count in found if count]

    def figures(self) -> str:
        """Tokens, rate and time left in words."""
        words = [counted(self.tokens, "token")] if self.tokens is not None else []
        if self.per_minute:
            words.append(f"{self.per_minute:,.1f} prompts/min")
        if self.seconds_left and self.status.phase == "Running":
            words.append(f"{duration(self.seconds_left)} left")
        return ", ".join(words)

    def troubles(self) -> list[Condition]:
        """Conditions that somebody who looks on should read."""
        shown = {"Suspended", "RateLimited", "Disrupted", "Failed", "Complete"}
        return [item for item in self.status.conditions if item.type in shown and item.status == "True"]


class Display(Protocol):
    """Where views go."""

    def show(self, view: View) -> None:
        """Show it in place of the last one."""
        ...

    def close(self) -> None:
        """The last one stays."""
        ...


def display_for(console: Console) -> Display:
    """Bars where somebody looks on, plain lines where output is piped."""
    return LiveDisplay(console) if console.is_terminal else PlainDisplay(console)


class PlainDisplay:
    """One line whenever prompts, batches, phase or conditions changed."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = ""
        self._told: set[tuple[str, str, str]] = set()

    def show(self, view: View) -> None:
        """See Display."""
        outcomes = "".join(f", {count} {outcome}" for outcome, count in view.outcomes())
        batches = view.status.batches
        line = (
            f"{view.name}: {view.status.phase or 'Pending'}, {view.ended}/{view.status.prompts.total} prompts{outcomes}"
        )
        line += f", {batches.finished}/{batches.total} batches, {batches.active} active"
        if line != self._last:
            self._last = line
            self._print(f"{line}; {view.figures()}" if view.figures() else line)
        for item in view.troubles():
            told = (item.type, item.reason, item.last_transition_time)
            if told not in self._told:
                self._told.add(told)
                self._print(f"{view.name}: {_in_words(item)}")

    def close(self) -> None:
        """See Display."""

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class LiveDisplay:
    """A bar for the run and one for each busy batch."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, refresh_per_second=4)
        self._live.start()

    def show(self, view: View) -> None:
        """See Display."""
        self._live.update(render(view))

    def close(self) -> None:
        """See Display."""
        self._live.stop()


def render(view: View) -> RenderableType:
    """The bars."""
    grid = Table.grid(padding=(0, 1))
    outcomes = Text("  ").join(Text(f"{count} {outcome}", style=COLOURS[outcome]) for outcome, count in view.outcomes())
    prompts, batches = view.status.prompts, view.status.batches
    grid.add_row(Text("prompts", style="bold"), *_bar(view.ended, prompts.total), outcomes)
    grid.add_row(Text("batches", style="bold"), *_bar(batches.finished, batches.total), Text(view.figures()))
    for item in view.busy[:_BATCHES_SHOWN]:
        grid.add_row(Text(f"batch {item.number}"), *_bar(item.ended, item.prompts), Text(""))
    parts: list[RenderableType] = [Text(f"{view.name}: {view.status.phase or 'Pending'}", style="bold"), grid]
    if more := len(view.busy) - _BATCHES_SHOWN:
        parts += [Text(f"and {counted(more, 'busy batch', 'busy batches')} more", style="dim")] if more > 0 else []
    return Group(*parts, *(Text(_in_words(item), style="yellow") for item in view.troubles()))


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `3 h 20 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _bar(done: int, total: int) -> tuple[RenderableType, RenderableType]:
    return ProgressBar(total=max(total, 1), completed=done, width=_BAR_WIDTH), Text(f"{done:,}/{total:,}")


def _in_words(item: Condition) -> str:
    return f"{item.type} ({item.reason}): {one_line(item.message, _MESSAGE_CHARS)}"
