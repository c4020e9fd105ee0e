"""Where results go."""

from typing import Annotated

from pydantic import Field

from batchrun_api.spec.base import ApiModel, HttpURL, LocalObjectRef

REGION = r"^[a-z0-9-]+$"
BUCKET = r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])$"
PREFIX = r"^([A-Za-z0-9!_.*'()=-]+(/[A-Za-z0-9!_.*'()=-]+)*)?$"

Region = Annotated[str, Field(min_length=1, max_length=64, pattern=REGION)]


class S3Access(ApiModel):
    """How to reach an S3 store. What is left out comes from the AWS provider chain (an IAM role)."""

    endpoint_url: Annotated[HttpURL | None, Field(alias="endpointURL")] = None
    """Endpoint of an S3-compatible store. Left out: Amazon S3."""
    region: Region | None = None
    """Region of the bucket."""
    force_path_style: bool | None = None
    """Put the bucket into the path instead of the host name. Left out: true with endpointURL, false without."""
    credentials_secret_ref: LocalObjectRef | None = None
    """Secret with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and optionally AWS_SESSION_TOKEN."""


class S3Location(S3Access):
    """A place in an S3 store; objects lie below `<prefix>/<runName>/`."""

    bucket: Annotated[str, Field(min_length=3, max_length=63, pattern=BUCKET)]
    """Name of the bucket. It must exist."""
    prefix: Annotated[str, Field(max_length=512, pattern=PREFIX)] = ""
    """Folder in the bucket, without slashes at its ends. Empty: the bucket's top."""


class Output(ApiModel):
    """Where trajectories, checkpoint and statistics are kept."""

    s3: S3Location
    """The S3 store of this run."""
