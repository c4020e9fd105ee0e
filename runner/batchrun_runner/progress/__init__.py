"""How a run on one machine shows itself: one live display on a terminal, plain lines anywhere else."""

from batchrun_runner.progress.reporter import Reporter, SilentReporter
from batchrun_runner.progress.terminal import LiveReporter, PlainReporter, reporter_for

__all__ = ["LiveReporter", "PlainReporter", "Reporter", "SilentReporter", "reporter_for"]
