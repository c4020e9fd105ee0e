"""A bucket of the real S3 server, as a test reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


class Bucket:
    """One bucket; `keys` and `etags` are of everything below a prefix."""

    def __init__(self, name: str, environ: Mapping[str, str]) -> None:
        self.name = name
        self.endpoint_url = environ["AWS_ENDPOINT_URL"]
        self.region = environ.get("AWS_REGION", "us-east-1")
        self.access_key, self.secret_key = environ["AWS_ACCESS_KEY_ID"], environ["AWS_SECRET_ACCESS_KEY"]
        self.client: S3Client = boto3.client(
            "s3",
            endpoint_url=self.endpoint_url,
            region_name=self.region,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 5}),
        )

    def etags(self, prefix: str) -> dict[str, str]:
        """Key below the prefix -> etag."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix + "/")
        return {
            item["Key"].removeprefix(prefix + "/"): item["ETag"] for page in pages for item in page.get("Contents", [])
        }

    def read(self, key: str) -> bytes:
        """A whole object."""
        return self.client.get_object(Bucket=self.name, Key=key)["Body"].read()

    def rows(self, key: str) -> list[dict[str, Any]]:
        """A JSONL object."""
        return [json.loads(line) for line in self.read(key).splitlines()]

    def json(self, key: str) -> dict[str, Any]:
        """A JSON object."""
        return dict(json.loads(self.read(key)))

    def delete(self, key: str) -> None:
        """Remove one object."""
        self.client.delete_object(Bucket=self.name, Key=key)
