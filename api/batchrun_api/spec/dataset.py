"""Where the prompts come from."""

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from batchrun_api.spec.base import NO_NUL, WEB_ADDRESS, ApiModel, ConfigMapKeyRef, ObjectName, Rule, given
from batchrun_api.spec.output import S3Access

# What a ConfigMap can carry beside the rest of the run's configuration (etcd refuses objects above 1.5 MiB).
INLINE_LIMIT_CHARS = 131072
URI = rf"^((s3|file)://\S+|{WEB_ADDRESS})$"


# A part of a path that is empty, `.` or `..`: it would lead out of the volume, or is a slip.
_BAD_STEP = "(^|/)[.]{0,2}(/|$)"


class ClaimFile(ApiModel):
    """A file in a PersistentVolumeClaim of the run's own namespace."""

    claim_name: ObjectName
    """Name of the claim. It is mounted read-only, in the plan pod alone."""
    path: Annotated[str, Field(min_length=1, max_length=1024, pattern=NO_NUL)]
    """The file, counted from the root of the volume: sets/prompts.jsonl."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"!self.path.matches('{_BAD_STEP}')",
            message="path counts from the root of the volume, without / at its ends and without . or ..",
            holds=lambda self: re.search(_BAD_STEP, self.path) is None,
        ),
    )


class Dataset(ApiModel):
    """The JSONL data set: one JSON object a line, with at least a non-empty `prompt`."""

    uri: Annotated[str, Field(min_length=6, max_length=2048, pattern=URI)] | None = None
    """Address of the data set: s3://bucket/key, https://..., or file:///path (one machine only)."""
    config_map_key_ref: ConfigMapKeyRef | None = None
    """The data set as one key of a ConfigMap in this namespace (at most 1 MiB)."""
    persistent_volume_claim: ClaimFile | None = None
    """The data set as a file in a PersistentVolumeClaim of this namespace."""
    inline: Annotated[str, Field(min_length=1, max_length=INLINE_LIMIT_CHARS)] | None = None
    """The JSONL text itself, for small data sets."""
    s3: S3Access = Field(default_factory=S3Access)
    """How to reach an s3:// data set, where that differs from the output's store."""
    on_invalid_row: Literal["Fail", "Skip"] = "Fail"
    """What to do with rows that cannot be used: Fail refuses the run before anything runs, Skip lists them."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="[has(self.uri), has(self.configMapKeyRef), has(self.persistentVolumeClaim), has(self.inline)]"
            ".filter(given, given).size() == 1",
            message="name exactly one source of the data set: uri, configMapKeyRef, persistentVolumeClaim or inline",
            holds=lambda self: given(self.uri, self.config_map_key_ref, self.persistent_volume_claim, self.inline) == 1,
        ),
    )
