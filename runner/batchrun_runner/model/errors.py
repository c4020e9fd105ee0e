"""How a model call can fail. Messages are for people and never hold the key, headers or an ephemeral prompt.

    ModelError                 reason and message
    ├── FailPrompt             this prompt is over; others go on
    └── StopRun                no prompt can work until somebody mends it: wrong key, unknown model

What may be repeated was repeated before one of these is raised (`retry.RetryPolicy`).
"""

from batchrun_api.outcomes import Reason


class ModelError(Exception):
    """A model call failed for good."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message


class FailPrompt(ModelError):
    """This prompt cannot go on."""


class StopRun(ModelError):
    """No prompt of this run can go on: InvalidCredentials or ModelNotFound."""


STOPS_RUN = frozenset({Reason.INVALID_CREDENTIALS, Reason.MODEL_NOT_FOUND})


def model_error(reason: Reason, message: str) -> ModelError:
    """The error with the fate that belongs to its reason."""
    return StopRun(reason, message) if reason in STOPS_RUN else FailPrompt(reason, message)
