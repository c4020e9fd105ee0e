"""The `status` of a BatchRun: conditions, counters, a short summary. Small, whatever the run's size."""

from typing import Annotated, Literal

from pydantic import Field

from batchrun_api.spec.base import ApiModel

Count = Annotated[int, Field(ge=0)]
Word = Annotated[str, Field(max_length=64)]


class Condition(ApiModel):
    """As in meta/v1."""

    type: Annotated[str, Field(max_length=64)]
    """Planned, Progressing, Suspended, RateLimited, Disrupted, Complete or Failed."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Annotated[str, Field(max_length=64)]
    """One word for programs."""
    message: Annotated[str, Field(max_length=2048)] = ""
    """For people: the cause and the next step."""
    last_transition_time: Annotated[str, Field(max_length=40)]
    """When the status changed last."""
    observed_generation: Count = 0
    """Generation of the spec that this speaks of."""


class PromptCounts(ApiModel):
    """Prompts by outcome: total = completed + truncated + discarded + failed + notRun, orphaned apart."""

    total: Count = 0
    """Valid prompts of the data set, after maxSamples, times samplesPerPrompt: each sample counts by itself."""
    completed: Count = 0
    """The model gave its final answer."""
    truncated: Count = 0
    """A limit ended it; the row is kept."""
    discarded: Count = 0
    """A filter dropped it."""
    failed: Count = 0
    """Could not be worked on; runs again on resume."""
    not_run: Count = 0
    """No outcome yet."""
    orphaned: Count = 0
    """Stored rows whose prompt is no longer in the data set."""


class BatchCounts(ApiModel):
    """Batches of the current plan."""

    total: Count = 0
    """In the plan."""
    active: Count = 0
    """Jobs that are running now."""
    finished: Count = 0
    """Every prompt has an outcome."""


class Eviction(ApiModel):
    """Attempts of a batch that the kubelet ended because of one sandbox."""

    batch: Count
    """Number of the batch."""
    sandbox: Annotated[int, Field(ge=0, le=1000)]
    """Index of the sandbox in its batch."""
    attempts: Count
    """How many attempts it took down."""
    reason: Word
    """DiskFull or Evicted."""
    message: Annotated[str, Field(max_length=200)] = ""
    """The kubelet's words, shortened."""


class PlanStatus(ApiModel):
    """The plan that is being worked on, and what is recorded of it (its Jobs may be removed afterwards)."""

    id: Word
    """Changes when the spec changed in a way that needs planning again, or with the retry annotation."""
    invalid_rows: Count = 0
    """Rows that were skipped."""
    done_before: Count = 0
    """Prompts that were already done when the plan was made."""
    recorded: Annotated[str, Field(max_length=16384)] = ""
    """Batches whose end is counted here, as ranges: `0-37,39`."""
    attempts: Annotated[dict[Word, Count], Field(max_length=1000)] = Field(default_factory=dict)
    """Attempts lost so far, by batch, for batches that are not recorded yet."""
    evictions: Annotated[list[Eviction], Field(max_length=100)] = Field(default_factory=list)
    """Which sandboxes took attempts down, for batches that are not recorded yet."""
    last_losses: Annotated[dict[Word, Annotated[str, Field(max_length=200)]], Field(max_length=100)] = Field(
        default_factory=dict
    )
    """Why the last lost attempt was lost, by batch, for batches that are not recorded yet."""
    completed: Count = 0
    """Completed prompts of recorded batches."""
    truncated: Count = 0
    """Truncated prompts of recorded batches."""
    discarded: Count = 0
    """Discarded prompts of recorded batches."""
    failed: Count = 0
    """Failed prompts of recorded batches."""
    merged: bool = False
    """The merge of this plan is in place."""


class Failure(ApiModel):
    """One failed prompt; the first few are listed, all of them stand in the store."""

    prompt_index: Annotated[int, Field(ge=-1)]
    """Row of the data set, counted from 0 over valid rows."""
    sample: Count = 0
    """Which of its samples, from 0."""
    id: Annotated[str, Field(max_length=200)] = ""
    """The row's own id."""
    reason: Word
    """Why, from the closed set of reasons."""
    message: Annotated[str, Field(max_length=400)] = ""
    """Details, shortened."""


class PassAt(ApiModel):
    """pass@k."""

    k: Annotated[int, Field(ge=1)]
    """How many samples of a prompt are drawn."""
    value: Word
    """The chance that at least one of them passes, as a decimal number from 0 to 1: the mean over prompts."""
    prompts: Count
    """Prompts that have at least k samples with a reward."""


class RewardSummary(ApiModel):
    """What verifiers said. Numbers that need not be whole are strings."""

    count: Count
    """Samples that have a reward."""
    mean: Word
    """Mean of their rewards, as a decimal number."""
    pass_at: Annotated[list[PassAt], Field(max_length=2)] = Field(default_factory=list)
    """For the smallest and the largest k that has an estimate; all of them stand in statistics.json."""


class Summary(ApiModel):
    """Figures of the finished run."""

    total_tokens: Count = 0
    """Prompt and completion tokens that the server reported, over the whole run."""
    tool_calls: Count = 0
    """Tool calls in kept rows."""
    reasons: Annotated[dict[Word, Count], Field(max_length=64)] = Field(default_factory=dict)
    """Prompts by reason, for those that did not complete."""
    reward: RewardSummary | None = None
    """Figures of verifiers; left out where no prompt has a reward."""


class BatchRunStatus(ApiModel):
    """What the operator observed."""

    conditions: Annotated[list[Condition], Field(max_length=16)] = Field(
        default_factory=list,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    )
    """Conditions; wait on Complete or Failed."""
    observed_generation: Count = 0
    """Generation of the spec that the status speaks of."""
    phase: Word = ""
    """One word for people. Programs use the conditions."""
    progress: Word = ""
    """Prompts with an outcome, of all: 37/100."""
    batch_progress: Word = ""
    """Finished batches, of all: 3/10."""
    prompts: PromptCounts = Field(default_factory=PromptCounts)
    """Prompts by outcome."""
    batches: BatchCounts = Field(default_factory=BatchCounts)
    """Batches of the current plan."""
    plan: PlanStatus | None = None
    """The current plan."""
    start_time: Annotated[str, Field(max_length=40)] | None = None
    """When work on the run began."""
    completion_time: Annotated[str, Field(max_length=40)] | None = None
    """When the run ended."""
    failures: Annotated[list[Failure], Field(max_length=10)] = Field(default_factory=list)
    """The first few failed prompts."""
    summary: Summary | None = None
    """Figures of the finished run."""
