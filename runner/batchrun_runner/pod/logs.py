"""Logs of a pod: one JSON object a line on stderr, with the run and the batch in each."""

import logging
import sys
from typing import Any

import structlog

from batchrun_api import conditions
from batchrun_api.hints import LIMIT_MESSAGE_CHARS, ModelHint
from batchrun_api.outcomes import Reason
from batchrun_api.plan import PlanCounts
from batchrun_runner.model.gate import Standstill
from batchrun_runner.prompt_keys import sample_of
from batchrun_runner.records import PromptResult, PromptRow
from batchrun_runner.settings import RunSettings


def set_up_logs(settings: RunSettings, **keys: Any) -> None:
    """Configure structlog; `keys` stand in every line. Libraries stay at warnings: their debug lines show headers."""
    level = getattr(logging, settings.spec.logging.level.upper())
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    structlog.contextvars.bind_contextvars(run=settings.run_name, **keys)


def log_standstill(standstill: Standstill) -> None:
    """For people as a log line, for the operator as a hint that `logging.level` does not silence."""
    structlog.get_logger("batchrun").warning(str(standstill))
    reasons = {None: "", Reason.RATE_LIMITED: conditions.Reason.RATE_LIMITED.value}
    reason = reasons.get(standstill.reason, conditions.Reason.MODEL_UNAVAILABLE.value)
    hint = ModelHint(reason=reason, message=standstill.words[:LIMIT_MESSAGE_CHARS])
    sys.stdout.write(hint.encode() + "\n")
    sys.stdout.flush()


class LogReporter:
    """A reporter that logs; texts are cut to `logging.prefixChars`."""

    def __init__(self, prefix_chars: int) -> None:
        self._prefix_chars = prefix_chars
        self._log = structlog.get_logger("batchrun")

    def planned(self, counts: PlanCounts, batches: int) -> None:
        """See Reporter."""
        self._log.info("planned", batches=batches, **counts.model_dump())

    def batch_started(self, number: int, prompts: int) -> None:
        """See Reporter."""
        self._log.info("batch started", prompts=prompts)

    def prompt_ended(self, number: int, row: PromptRow, result: PromptResult) -> None:
        """See Reporter."""
        self._log.info(
            "prompt ended",
            prompt_index=row.index,
            sample=sample_of(row.key),
            prompt=row.prompt[: self._prefix_chars],
            outcome=result.outcome,
            reason=result.reason or "",
            message=result.message[: self._prefix_chars],
            api_calls=result.api_calls,
            tokens=result.usage.total_tokens,
            seconds=round(result.seconds, 3),
        )

    def batch_ended(self, number: int) -> None:
        """See Reporter."""
        self._log.info("batch ended")

    def note(self, text: str) -> None:
        """See Reporter."""
        self._log.info(text)
