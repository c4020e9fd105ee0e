"""What can go wrong with what a plan has written, besides the store itself."""

from batchrun_api.conditions import Reason
from batchrun_runner.storage.errors import StorageError

HOW_IT_GOES_ON = "planning again makes it anew; keep clean-up jobs and lifecycle rules away from plans/"


class PlanBroken(StorageError):
    """An object of the plan is gone, damaged or another plan's: what is stored of prompts is not touched by that."""

    reason = Reason.PLAN_BROKEN

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; {HOW_IT_GOES_ON}")
