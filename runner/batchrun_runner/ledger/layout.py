"""Keys of all objects of a run, relative to `<output>/<runName>/` (docs/decisions/0005)."""

import re
from dataclasses import dataclass

from batchrun_api.plan import REJECTED_ROWS

OWNER = "owner.json"
CHECKPOINT = "checkpoint.json"
TRAJECTORIES = "trajectories.jsonl"
DISCARDED = "discarded.jsonl"
REJECTED = REJECTED_ROWS
LEFT_OUT = "left_out.jsonl"
STATISTICS = "statistics.json"
CARD = "README.md"
REPORT = "report.html"
VERIFIED = "verified.jsonl"
VERIFIED_STATISTICS = "verified_statistics.json"
BATCHES = "batch_"
LEDGERS = "ledger/"
LEDGER_INDEX = "ledger/index.jsonl"
"""All ledgers in one object, so that a resume need not read thousands; written by plan and merge."""
PARTS = "parts/"
PLANS = "plans/"
CONFIGS = "configs/"
ARTIFACTS = "artifacts/"
"""What was brought out of sandboxes: `artifacts/<key>/<writer>/`, which the rows name."""
IMAGES = "images/"
"""Pictures that tools made."""

_STARTED = ".started"
_WRITER = re.compile(r"[A-Za-z0-9_-]{1,100}")
_BATCH = re.compile(r"batch_(\d+)\.jsonl")
_PART = re.compile(r"parts/batch_(\d+)/([0-9a-f-]+)\.([A-Za-z0-9_-]+)(\.started)?")


@dataclass(frozen=True, slots=True)
class PartName:
    """What the key of an object below `parts/` says."""

    batch: int
    key: str
    writer: str
    is_start: bool
    """True: only the mark that the prompt was started."""

    @property
    def object_key(self) -> str:
        """The object's key in the store."""
        return f"{parts(self.batch)}{self.key}.{self.writer}{_STARTED if self.is_start else ''}"


def batch_file(batch: int) -> str:
    """Rows of one batch."""
    return f"{BATCHES}{batch}.jsonl"


def ledger_file(batch: int) -> str:
    """Ledger of one batch."""
    return f"{LEDGERS}batch_{batch}.jsonl"


def parts(batch: int) -> str:
    """Prefix of the parts of one batch."""
    return f"{PARTS}batch_{batch}/"


def plan_rows(plan_id: str) -> str:
    """The rows to run, batch after batch."""
    return f"{PLANS}{plan_id}/rows.jsonl"


def plan_order(plan_id: str) -> str:
    """Key of every row in data set order."""
    return f"{PLANS}{plan_id}/order.jsonl"


def plan_summary(plan_id: str) -> str:
    """Figures of a plan and the batch numbers that it took."""
    return f"{PLANS}{plan_id}/summary.json"


def configuration_file(digest: str) -> str:
    """Parts of one configuration."""
    return f"{CONFIGS}{digest}.json"


def image_file(key: str, number: int) -> str:
    """The picture of one prompt with this number, from 1."""
    return f"{IMAGES}{key}/{number}.png"


def batch_number(key: str) -> int | None:
    """N of `batch_N.jsonl`, also below `ledger/`; None for every other key."""
    found = _BATCH.fullmatch(key.removeprefix(LEDGERS))
    return int(found[1]) if found else None


def part_name(key: str) -> PartName | None:
    """None where the key is not one of a part."""
    found = _PART.fullmatch(key)
    return PartName(int(found[1]), found[2], found[3], found[4] is not None) if found else None


def artifacts_place(key: str, writer: str) -> str:
    """Prefix of what one attempt of a prompt brought out."""
    return f"{ARTIFACTS}{key}/{checked_writer(writer)}/"


def checked_writer(writer: str) -> str:
    """A writer's id, which becomes part of keys. Raises ValueError."""
    if not _WRITER.fullmatch(writer):
        raise ValueError(f"{writer!r} cannot be a writer's id: letters, digits, - and _ only")
    return writer
