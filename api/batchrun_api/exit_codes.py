"""Exit codes of the runner's verbs in a pod, and what the operator makes of them (docs/decisions/0002)."""

from enum import IntEnum


class ExitCode(IntEnum):
    """End of `batchrun plan`, `batch` and `merge`. `batchrun local` uses 0, 1 and 2 only."""

    DONE = 0
    """Every prompt of the batch has a stored outcome; the plan is on the log; the merge is in place."""
    SOME_FAILED = 1
    """`batchrun local` only: every prompt has an outcome, some of them failed."""
    BAD_INPUT = 2
    """The data set or the configuration cannot be used; the termination message says what to fix."""
    BLOCKED = 3
    """Something outside must be mended first: credentials, bucket, model name. Running again may help after that."""
    WORK_LEFT = 4
    """Stopped early (SIGTERM, suspend) with prompts left; what is finished is stored."""
    INTERNAL = 70
    """A fault of ours; the log has the traceback."""
