"""A real S3 server (versitygw) on a folder, on the node's address so that pods reach it."""

from __future__ import annotations

import json
import secrets

from tests.cluster.testbed.context import Component, Context
from tests.cluster.testbed.network import answers_ok
from tests.cluster.testbed.settings import S3_PORT, S3_REGION, Layout
from tests.cluster.testbed.shell import write_atomically

NAME = "s3"


def _credentials(layout: Layout) -> tuple[str, str]:
    """Access key and secret key: random, made once per cluster, kept over a repair."""
    path = layout.s3 / "credentials.json"
    if not path.is_file():
        made = {"access": f"test{secrets.token_hex(8)}", "secret": secrets.token_hex(20)}
        write_atomically(path, json.dumps(made), mode=0o600)
    stored = json.loads(path.read_text())
    return stored["access"], stored["secret"]


def endpoint_at(address: str) -> str:
    return f"http://{address}:{S3_PORT}"


def endpoint(context: Context) -> str:
    return endpoint_at(context.node_ip)


def environment_text(context: Context) -> str:
    """The lines of `.cluster/s3.env`."""
    access, secret = _credentials(context.layout)
    return (
        f"AWS_ENDPOINT_URL={endpoint(context)}\n"
        f"AWS_ACCESS_KEY_ID={access}\n"
        f"AWS_SECRET_ACCESS_KEY={secret}\n"
        f"AWS_REGION={S3_REGION}\n"
    )


def server(context: Context) -> Component:
    data = context.layout.s3 / "data"
    access, secret = _credentials(context.layout)
    argv = [
        context.program("versitygw"),
        "--port",
        f"{context.node_ip}:{S3_PORT}",
        "--region",
        S3_REGION,
        "--health",
        "/health",
        "posix",
        str(data),
    ]
    return Component(
        NAME,
        argv,
        is_ready=lambda: answers_ok(f"{endpoint(context)}/health"),
        prepare=lambda: data.mkdir(parents=True, exist_ok=True),
        extra_env={"ROOT_ACCESS_KEY": access, "ROOT_SECRET_KEY": secret},
    )
