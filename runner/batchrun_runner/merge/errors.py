"""What can go wrong in a merge besides the store.

MergeFailed              nothing was replaced; the message says which figures disagree, or what is missing
└── LedgerDisagrees      a ledger and its batch file tell different things: the file is read and the merge repeated
"""

from batchrun_api.conditions import Reason


class MergeFailed(Exception):
    """The result would be wrong, so there is none."""

    reason: Reason = Reason.INTERNAL


class LedgerDisagrees(MergeFailed):
    """What lies at a row's place is not that row."""

    def __init__(self, batch: int, detail: str) -> None:
        super().__init__(
            f"batch_{batch}.jsonl is not what its ledger says ({detail}); delete ledger/batch_{batch}.jsonl"
        )
        self.batch = batch
