"""The plan: what the plan step tells the operator about the batches. No prompts, only numbers and image names."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from batchrun_api.own_container import OwnContainer
from batchrun_api.text import counted

REJECTED_ROWS = "rejected.jsonl"
"""Object of the run's folder that lists the rows of the data set that cannot be used."""

Count = Annotated[int, Field(ge=0)]


class PlanModel(BaseModel):
    """Base of the plan's records: short keys on the wire are not worth their confusion, gzip removes them."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PlannedBatch(PlanModel):
    """One batch to run."""

    number: Count
    """Batch number N of `batch_N.jsonl`; above every number that is already stored."""
    offset: Count
    """First byte of this batch's rows in the plan's rows object."""
    length: Annotated[int, Field(ge=1)]
    """Bytes of this batch's rows."""
    images: list[Annotated[int, Field(ge=-1)]]
    """For each prompt of the batch, in order, the index into `Plan.images`; -1 is the run's default image."""
    containers: list[Annotated[int, Field(ge=-1)]] = Field(default_factory=list)
    """The same into `Plan.containers`; -1 is as the run says. Empty: so are all of them."""
    browser: bool = False
    """Whether a prompt of the batch has drawn the toolset `browser`, and its pod needs one."""


class PlanCounts(PlanModel):
    """The figures of a plan, in prompts. `total = done + to_run`; invalid rows and orphans stand beside it."""

    total: Count
    """Valid prompts of the data set, after maxSamples; each of its samples is one."""
    samples_per_prompt: Annotated[int, Field(ge=1)] = 1
    done: Count
    """Stored with an outcome that does not run again."""
    completed: Count = 0
    truncated: Count = 0
    discarded: Count = 0
    to_run: Count
    """Prompts in the new batches."""
    invalid: Count = 0
    """Rows that cannot be used and were skipped."""
    orphaned: Count = 0
    """Stored rows whose prompt is no longer in the data set."""


def total_in_words(total: int, samples_per_prompt: int) -> str:
    """`7 prompts`, or `21 samples of 7 prompts`."""
    if samples_per_prompt == 1:
        return counted(total, "prompt")
    return f"{counted(total, 'sample')} of {counted(total // samples_per_prompt, 'prompt')}"


def plan_in_words(counts: PlanCounts, batches: int) -> str:
    """A plan in one line, for terminals, logs and the condition Planned. `batches`: how many new ones."""
    outcomes = [("completed", counts.completed), ("truncated", counts.truncated), ("discarded", counts.discarded)]
    ended = ", ".join(f"{count:,} {name}" for name, count in outcomes if count)
    done = f"{counts.done:,} done" + (f" ({ended})" if ended else "")
    new = counted(batches, "new batch", "new batches")
    total = total_in_words(counts.total, counts.samples_per_prompt)
    parts = [f"{total}: {done}, {counts.to_run:,} to run in {new}"]
    if counts.invalid:
        parts.append(f"{counted(counts.invalid, 'invalid row')} skipped (see {REJECTED_ROWS})")
    if counts.orphaned:
        parts.append(f"{counted(counts.orphaned, 'stored row')} of prompts that are not in the data set")
    return "; ".join(parts)


class Plan(PlanModel):
    """Everything the operator needs to run the batches."""

    plan_id: str
    counts: PlanCounts
    images: list[str] = Field(default_factory=list)
    """Image names that rows ask for, each once."""
    containers: list[OwnContainer] = Field(default_factory=list)
    """Users and resources that rows ask for, each combination once."""
    batches: list[PlannedBatch] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    """For people, a sentence each, a few at most: rows that were skipped, and what is stored and damaged."""
