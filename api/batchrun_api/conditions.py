"""Types and reasons of conditions, as constants. Messages carry the cause and the next step; code never reads them."""

from enum import StrEnum


class ConditionType(StrEnum):
    """As in batch/v1 where there is one: Complete and Failed are set once, at the end."""

    PLANNED = "Planned"
    PROGRESSING = "Progressing"
    SUSPENDED = "Suspended"
    RATE_LIMITED = "RateLimited"
    """True while the model server limits the rate; not there in a run that it never did."""
    COMPLETE = "Complete"
    FAILED = "Failed"


class Phase(StrEnum):
    """One word for people (`kubectl get`). Computed from what is observed, never read back."""

    PENDING = "Pending"
    PLANNING = "Planning"
    RUNNING = "Running"
    MERGING = "Merging"
    SUSPENDED = "Suspended"
    COMPLETE = "Complete"
    FAILED = "Failed"


class Reason(StrEnum):
    """Why a condition has its status."""

    # planning
    PLANNING = "Planning"
    PLANNED = "Planned"
    PLAN_BROKEN = "PlanBroken"
    PLAN_TOO_LARGE = "PlanTooLarge"
    # going on
    BATCHES_RUNNING = "BatchesRunning"
    MERGING = "Merging"
    SUSPENDED = "Suspended"
    RESUMED = "Resumed"
    SUPERSEDED = "Superseded"
    RATE_LIMITED = "RateLimited"
    MODEL_UNAVAILABLE = "ModelUnavailable"
    MODEL_ANSWERS = "ModelAnswers"
    # the end
    ALL_PROMPTS_DONE = "AllPromptsDone"
    SOME_PROMPTS_FAILED = "SomePromptsFailed"
    TOO_MANY_PROMPTS_FAILED = "TooManyPromptsFailed"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    # the user must mend something
    INVALID_SPEC = "InvalidSpec"
    DATASET_INVALID = "DatasetInvalid"
    DATASET_UNREADABLE = "DatasetUnreadable"
    OUTPUT_NOT_EMPTY = "OutputNotEmpty"
    OUTPUT_IN_USE = "OutputInUse"
    CONFIG_CHANGED = "ConfigChanged"
    TOOLSET_UNAVAILABLE = "ToolsetUnavailable"
    INVALID_CREDENTIALS = "InvalidCredentials"
    MODEL_NOT_FOUND = "ModelNotFound"
    BUCKET_MISSING = "BucketMissing"
    STORAGE_DENIED = "StorageDenied"
    STORAGE_UNAVAILABLE = "StorageUnavailable"
    ALL_DISCARDED = "AllDiscarded"
    # what Kubernetes says
    IMAGE_UNAVAILABLE = "ImageUnavailable"
    UNSCHEDULABLE = "Unschedulable"
    QUOTA_EXCEEDED = "QuotaExceeded"
    POD_REFUSED = "PodRefused"
    CONTAINER_CONFIG_ERROR = "ContainerConfigError"
    TOO_MANY_ATTEMPTS = "TooManyAttempts"
    INTERNAL = "Internal"
