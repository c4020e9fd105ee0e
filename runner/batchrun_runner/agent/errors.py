"""What ends a prompt from outside of the loop.

    PromptFailed     the toolbox cannot go on (sandbox lost, sandbox unavailable); data: reason and message

A `model.errors.FailPrompt` ends a prompt too. `model.errors.StopRun` is not caught by the agent: it ends the run.
"""

from batchrun_api.outcomes import Reason


class PromptFailed(Exception):
    """Raised by a toolbox: this prompt cannot go on. The agent ends it as failed and keeps what was said so far."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message
