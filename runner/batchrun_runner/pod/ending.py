"""How a verb ends in a pod: exit code, termination message, and one line in the log (docs/decisions/0002)."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import structlog

from batchrun_api.conditions import Reason
from batchrun_api.exit_codes import ExitCode
from batchrun_api.frames import PlanTooLarge
from batchrun_api.messages import BatchMessage, StepMessage, batch_message_limit_bytes
from batchrun_api.names import SANDBOX_SOCKETS_DIR
from batchrun_runner.dataset.errors import DatasetError
from batchrun_runner.ledger.ownership import PlanRefused
from batchrun_runner.model.errors import StopRun
from batchrun_runner.pod.enforcement import NetworkNotEnforced
from batchrun_runner.pod.inputs import ConfigurationInvalid
from batchrun_runner.storage.errors import StorageError, StorageUnavailable

ENV_TERMINATION_LOG = "BATCHRUN_TERMINATION_LOG"
MAX_SANDBOXES = 100
"""`batchSize` at most."""
_LOG = structlog.get_logger(__name__)

_BAD_INPUT = (PlanRefused, DatasetError, ConfigurationInvalid, PlanTooLarge)


def leave_message(text: str) -> None:
    """Write the termination message, where there is a place for it. Not in a pod there is none."""
    path = Path(os.environ.get(ENV_TERMINATION_LOG, "/dev/termination-log"))
    if path.exists() or ENV_TERMINATION_LOG in os.environ:
        path.write_text(text)


def ended_with(error: Exception) -> tuple[ExitCode, str, str]:
    """(exit code, condition reason, message for people) of an error that ended a verb."""
    if isinstance(error, _BAD_INPUT):
        reason = Reason.PLAN_TOO_LARGE if isinstance(error, PlanTooLarge) else error.reason
        return ExitCode.BAD_INPUT, reason, str(error)
    if isinstance(error, StopRun):
        return ExitCode.BLOCKED, error.reason, error.message
    if isinstance(error, NetworkNotEnforced):
        return ExitCode.BLOCKED, error.reason, str(error)
    if isinstance(error, StorageError):
        code = ExitCode.INTERNAL if isinstance(error, StorageUnavailable) else ExitCode.BLOCKED
        return code, error.reason, str(error)
    return ExitCode.INTERNAL, Reason.INTERNAL, f"{type(error).__name__}: {error}"


def step(verb: Callable[[], StepMessage]) -> int:
    """Run plan or merge to its end. Returns the exit code; the message is left for the operator."""
    try:
        leave_message(verb().encode())
    except Exception as error:
        return _failed(error, lambda reason, message: StepMessage(reason=reason, message=message).encode())
    return ExitCode.DONE


def batch_ending(verb: Callable[[], BatchMessage], sockets: Path = Path(SANDBOX_SOCKETS_DIR)) -> int:
    """Run a batch to its end. WORK_LEFT where prompts are left without an error. `sockets`: a folder per sandbox."""
    try:
        message = verb()
    except Exception as error:
        of_store, kind = isinstance(error, StorageError), type(error).__name__
        limit_bytes = batch_message_limit_bytes(_count_of(sockets))

        def encode(reason: str, words: str) -> str:
            # The words of a fault of ours may hold anything, a prompt too: those stay in the log.
            shown = kind if reason == Reason.INTERNAL else words
            return BatchMessage(reason=reason, of_store=of_store, message=shown).encode(limit_bytes)

        return _failed(error, encode)
    leave_message(message.encode())
    return ExitCode.WORK_LEFT if message.left else ExitCode.DONE


def _count_of(folder: Path) -> int:
    return sum(1 for _ in folder.iterdir()) if folder.is_dir() else MAX_SANDBOXES


def _failed(error: Exception, encode: Callable[[str, str], str]) -> int:
    code, reason, message = ended_with(error)
    if code is ExitCode.INTERNAL:
        _LOG.error("failed", reason=reason, message=message, exc_info=error)
    else:
        _LOG.error("refused", reason=reason, message=message)
    leave_message(encode(reason, message))
    sys.stderr.flush()
    return code
