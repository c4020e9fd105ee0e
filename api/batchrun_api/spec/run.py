"""The BatchRun itself."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field, model_validator

from batchrun_api.spec.agent import Agent
from batchrun_api.spec.base import ApiModel, Rule
from batchrun_api.spec.dataset import Dataset
from batchrun_api.spec.distribution import OWN_TOOLSETS_NEED_SERVERS, DistributionChoice
from batchrun_api.spec.model import Model
from batchrun_api.spec.output import Output
from batchrun_api.spec.pod import PodTemplate
from batchrun_api.spec.sandbox import Sandbox
from batchrun_api.spec.tools import Tools

API_GROUP = "batchrun.dev"
API_VERSION = "v1alpha1"
KIND = "BatchRun"
PLURAL = "batchruns"

RUN_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
METADATA_NAME = rf"^{_LABEL}(\.{_LABEL})*$"
MOST_SAMPLES = 10**9
"""Of a run: bound of maxSamples times samplesPerPrompt."""
_SEED_LIMIT = 2**53
"""The largest integer that every JSON reader takes exactly."""

RunName = Annotated[str, Field(min_length=1, max_length=100, pattern=RUN_NAME)]


class Filters(ApiModel):
    """Which samples are kept."""

    require_reasoning: bool = True
    """Discard a sample in which no assistant turn has reasoning. Kept in discarded.jsonl."""
    unknown_tools: Literal["Drop", "Keep"] = "Drop"
    """Rows that call a tool which does not exist: leave them out of the merged result, or keep them."""


class Merge(ApiModel):
    """How results are put together."""

    orphans: Literal["Keep", "Drop"] = "Keep"
    """Rows whose prompt is no longer in the data set: keep them at the end with prompt_index -1, or leave them out."""


class FailurePolicy(ApiModel):
    """When a run counts as failed."""

    max_failed_percent: Annotated[int, Field(ge=0, le=100)] = 100
    """The run ends Failed when more than this share of its prompts failed, in percent. 100: never."""


class Logging(ApiModel):
    """What the pods log."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severity that is logged."""
    prefix_chars: Annotated[int, Field(ge=0, le=10000)] = 100
    """How many characters of a text (prompt, reply, tool result) a log line may show."""


class BatchRunSpec(ApiModel):
    """A data set, a model, and how to run the one over the other."""

    model_config = ConfigDict(json_schema_extra={"allOf": [OWN_TOOLSETS_NEED_SERVERS]})

    run_name: RunName | None = None
    """Names the output folder and the checkpoint. Left out: the resource's name. Cannot be changed."""
    dataset: Dataset
    """The prompts."""
    output: Output | None = None
    """Where results go. Cannot be changed. Needed on a cluster; on one machine --output names a folder instead."""
    batch_size: Annotated[int, Field(ge=1, le=100)] = 10
    """Prompts in a batch: one pod with a sandbox container for each prompt. 1 gives each prompt its own pod."""
    batching: Literal["GroupByImage", "DataSetOrder"] = "GroupByImage"
    """Which prompts share a batch: those of one image, in data set order; or all of them as they come."""
    num_workers: Annotated[int, Field(ge=1, le=1000)] = 4
    """Batches at the same time. Can be changed while the run is going on."""
    prompts_per_pod: Annotated[int, Field(ge=1, le=100)] = 1
    """Prompts of a batch at the same time. They share the pod's network: two servers on one port would meet."""
    distribution: DistributionChoice = "default"
    """Toolset distribution: a name (`batchrun distributions`), own probabilities in percent, or a `configMapKeyRef`."""
    tools: Tools = Field(default_factory=Tools)
    """Tool settings."""
    model: Model = Field(default_factory=Model)
    """The model."""
    agent: Agent = Field(default_factory=Agent)
    """The agent loop."""
    sandbox: Sandbox = Field(default_factory=Sandbox)
    """The sandbox containers."""
    max_samples: Annotated[int, Field(ge=1, le=MOST_SAMPLES)] | None = None
    """Only the first N valid rows, counted before the resume filter. Can be changed while the run is going on."""
    samples_per_prompt: Annotated[int, Field(ge=1, le=1000)] = 1
    """How often each row is run, each time as a prompt of its own. Raising it runs only the new samples."""
    resume_policy: Literal["Continue", "Force", "Never"] = "Continue"
    """Stored results: Continue from them; Force, even if another configuration made them; or Never, refuse."""
    filters: Filters = Field(default_factory=Filters)
    """Quality filters."""
    merge: Merge = Field(default_factory=Merge)
    """The merge at the end."""
    failure_policy: FailurePolicy = Field(default_factory=FailurePolicy)
    """When the run counts as failed."""
    logging: Logging = Field(default_factory=Logging)
    """Logs of the pods."""
    suspend: bool = False
    """Let running batches finish and start no more. Can be changed while the run is going on."""
    pod_template: PodTemplate = Field(default_factory=PodTemplate)
    """What every pod of this run carries besides."""
    ttl_seconds_after_finished: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    """Remove the run's Jobs this many seconds after it finished. Results in S3 stay. Left out: keep them."""
    active_deadline_seconds: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    """Stop the run this many seconds after it started. Left out: no limit."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.runName) == has(oldSelf.runName) && (!has(self.runName) || self.runName == oldSelf.runName)",
            message="runName cannot be changed: it names where results lie; make a new BatchRun instead",
        ),
        Rule(
            cel="has(self.output) == has(oldSelf.output) && (!has(self.output) || self.output == oldSelf.output)",
            message="output cannot be changed: results lie there; make a new BatchRun instead",
        ),
        Rule(
            cel="has(self.output)",
            message="output is needed on a cluster: name the bucket in output.s3",
            holds=lambda self: self.output is not None,
            cluster_only=True,
        ),
        Rule(
            cel="!has(self.dataset.uri) || !self.dataset.uri.startsWith('file:')",
            message="dataset.uri file:// works on one machine only: use s3://, https:// or a ConfigMap",
            holds=lambda self: self.dataset.uri is None or not self.dataset.uri.startswith("file:"),
            cluster_only=True,
        ),
        Rule(
            cel="!(self.filters.requireReasoning && self.model.reasoning.?effort.orValue('') == 'none')",
            message="reasoning effort none leaves nothing for filters.requireReasoning to keep: set it to false",
            holds=lambda self: not (self.filters.require_reasoning and self.model.reasoning.effort == "none"),
        ),
        Rule(
            cel="self.promptsPerPod <= self.batchSize",
            message="promptsPerPod cannot be larger than batchSize",
            holds=lambda self: self.prompts_per_pod <= self.batch_size,
        ),
        Rule(
            cel=f"self.?maxSamples.orValue(1) * self.samplesPerPrompt <= {MOST_SAMPLES}",
            message=f"maxSamples times samplesPerPrompt is more than {MOST_SAMPLES} prompts: lower one of the two",
            holds=lambda self: (self.max_samples or 1) * self.samples_per_prompt <= MOST_SAMPLES,
        ),
        Rule(
            cel=f"self.model.?sampling.?seed.orValue(0) + self.samplesPerPrompt - 1 <= {_SEED_LIMIT}",
            message="sample i is asked with the seed model.sampling.seed + i, which must not be above "
            f"{_SEED_LIMIT}: lower the seed",
            holds=lambda self: (self.model.sampling.seed or 0) + self.samples_per_prompt - 1 <= _SEED_LIMIT,
        ),
    )


_OTHER_METADATA = frozenset(
    {
        "generateName",
        "selfLink",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "ownerReferences",
        "finalizers",
        "managedFields",
    }
)


class Metadata(ApiModel):
    """The part of a Kubernetes object's metadata that batchrun reads; its other fields are left alone."""

    name: Annotated[str, Field(min_length=1, max_length=253, pattern=METADATA_NAME)]
    namespace: Annotated[str, Field(max_length=63)] | None = None
    uid: Annotated[str, Field(max_length=128)] | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None

    @model_validator(mode="before")
    @classmethod
    def _others_are_left_alone(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {key: item for key, item in value.items() if key not in _OTHER_METADATA}


class BatchRun(ApiModel):
    """A whole BatchRun document as a user writes it. `status` is accepted and not looked at."""

    api_version: Literal["batchrun.dev/v1alpha1"]
    kind: Literal["BatchRun"]
    metadata: Metadata
    spec: BatchRunSpec
    status: dict[str, Any] | None = None

    @property
    def run_name(self) -> str:
        """The name of the output folder."""
        return self.spec.run_name or self.metadata.name
