"""What the runner of a batch says on its log for the operator while it runs (docs/decisions/0007).

One line for each change. Other lines of the log are JSON or come from libraries, so none of them can look like it.
"""

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

MARK = "batchrun-model: "
LIMIT_MESSAGE_CHARS = 400


class ModelHint(BaseModel):
    """Whether the model server holds the batch up."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    reason: Annotated[str, Field(max_length=40)] = ""
    """RateLimited or ModelUnavailable (`conditions.Reason`); empty: the model answers."""
    message: Annotated[str, Field(max_length=LIMIT_MESSAGE_CHARS)] = ""
    """The server's words, or the system's."""

    def encode(self) -> str:
        """The line, without its newline."""
        return MARK + self.model_dump_json(exclude_defaults=True)

    @classmethod
    def newest(cls, log: str) -> Self | None:
        """The last hint of a log; None: it holds none."""
        for line in reversed(log.splitlines()):
            if line.startswith(MARK):
                try:
                    return cls.model_validate_json(line.removeprefix(MARK))
                except ValidationError:
                    continue  # cut off at the end of what was read
        return None
