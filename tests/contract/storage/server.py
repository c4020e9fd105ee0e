"""A real S3 server for the contract test: the one that the environment names, else versitygw on a temporary folder."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import boto3
import pytest
from botocore.config import Config

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_START_SECONDS = 20.0


@dataclass(frozen=True)
class S3Server:
    """Where it is; its credentials are in the environment."""

    url: str
    buckets: list[str] = field(default_factory=list)
    """What tests made there."""

    def client(self) -> S3Client:
        """A plain client, independent of the code under test."""
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}, request_checksum_calculation="when_required"),
        )

    def new_bucket(self) -> str:
        """An empty bucket of its own."""
        name = f"contract-{secrets.token_hex(6)}"
        client = self.client()
        try:
            client.create_bucket(Bucket=name)
        finally:
            client.close()
        self.buckets.append(name)
        return name

    def remove_buckets(self) -> None:
        """Leave somebody else's server as it was."""
        client = self.client()
        for bucket in self.buckets:
            for upload in client.list_multipart_uploads(Bucket=bucket).get("Uploads", []):
                client.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
            for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
                for item in page.get("Contents", []):
                    client.delete_object(Bucket=bucket, Key=item["Key"])
            client.delete_bucket(Bucket=bucket)
        client.close()


@contextmanager
def running(folder: Path) -> Iterator[S3Server]:
    """The server; skips where there is none, except in CI."""
    given = os.environ.get("AWS_ENDPOINT_URL")
    if given:
        server = S3Server(given)
        yield server
        server.remove_buckets()
        return
    binary = _binary()
    if binary is None:
        message = "no S3 server: set AWS_ENDPOINT_URL, or build one with `make cluster-up`"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    with _started(binary, folder) as server:
        yield server


def _binary() -> Path | None:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "batchrun")
    return next((path for path in sorted(cache.glob("versitygw-*/versitygw")) if os.access(path, os.X_OK)), None)


@contextmanager
def _started(binary: Path, folder: Path) -> Iterator[S3Server]:
    access, secret = f"test{secrets.token_hex(6)}", secrets.token_hex(20)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {"ROOT_ACCESS_KEY": access, "ROOT_SECRET_KEY": secret, "PATH": os.environ.get("PATH", "")}
    command = [str(binary), "--keep-alive", "--port", f"127.0.0.1:{port}", "posix", str(folder)]
    with (folder.parent / "versitygw.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        _wait_for(port, process)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ACCESS_KEY_ID", access)
            patch.setenv("AWS_SECRET_ACCESS_KEY", secret)
            yield S3Server(f"http://127.0.0.1:{port}")
    finally:
        process.kill()
        process.wait()


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise RuntimeError("versitygw did not start")
