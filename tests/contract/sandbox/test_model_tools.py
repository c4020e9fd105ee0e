"""Tools that ask other models, on a real sandbox and real servers, call by call."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.harness.images_api import ImagesAPI, picture

from batchrun_api.spec import BatchRun
from batchrun_runner import settings as run_settings
from batchrun_runner.demo_model.script import parse_script
from batchrun_runner.demo_model.server import DemoModel
from batchrun_runner.model.client import ModelClient
from batchrun_runner.sandbox.backend import SandboxLease
from batchrun_runner.tools.context import ToolContext, ToolLimits, ToolResult
from batchrun_runner.tools.registry import TOOLS, execute
from batchrun_runner.tools.services import open_services

LIMITS = ToolLimits(read_bytes=2000)
SCRIPT = parse_script(
    [{"match": "long", "turns": [{"content": "red " * 1000}]}, {"match": "", "turns": [{"content": "red"}]}]
)


class Lab:
    """Calls tools; `seen` are the pictures that the model was shown."""

    def __init__(self, context: ToolContext, demo: DemoModel, api: ImagesAPI) -> None:
        self.context = context
        self.demo = demo
        self.api = api
        self.last = ToolResult("")

    async def __call__(self, name: str, **arguments: Any) -> dict[str, Any]:
        self.last = await execute(name, arguments, self.context)
        said: dict[str, Any] = json.loads(self.last.content)
        assert self.last.failed == (said["error"] is not None)
        return said

    @property
    def seen(self) -> list[str]:
        return [body["messages"][0]["content"][1]["image_url"]["url"] for body in self.demo.bodies]


@pytest.fixture
async def lab(lease: SandboxLease) -> AsyncIterator[Lab]:
    async with AsyncExitStack() as stack:
        demo = await stack.enter_async_context(DemoModel(script=SCRIPT, keep=10))
        api = stack.enter_context(ImagesAPI("127.0.0.1"))
        spec = {
            "dataset": {"inline": '{"prompt": "a"}'},
            "model": {"name": "own", "baseURL": demo.base_url},
            "tools": {"vision": {"allowedRanges": ["127.0.0.1/32"]}},
        }
        document = {"apiVersion": "batchrun.dev/v1alpha1", "kind": "BatchRun", "metadata": {"name": "r"}, "spec": spec}
        settings = run_settings.from_batchrun(BatchRun.model_validate(document), environ={})
        own = await stack.enter_async_context(ModelClient.from_settings(settings))
        services = await stack.enter_async_context(open_services(settings, own))
        yield Lab(ToolContext(lease.sandbox, lease.cwd, tuple(TOOLS), LIMITS, services=services), demo, api)


@pytest.fixture
def work(lease: SandboxLease) -> Path:
    return Path(lease.cwd)


def data_url(data: bytes, kind: str = "image/png;base64") -> str:
    return f"data:{kind},{base64.b64encode(data).decode()}"


async def test_a_picture_is_taken_from_a_file_an_address_or_a_data_url(lab: Lab, work: Path) -> None:
    (work / "pictures").mkdir()
    (work / "pictures/one.png").write_bytes(picture())
    for where in (
        {"path": "pictures/one.png"},
        {"path": str(work / "pictures/one.png")},
        {"image_url": f"{lab.api.url}/red.png"},
        {"image_url": data_url(picture())},
        {"image_url": data_url(picture(), "IMAGE/PNG;BASE64").replace("data:", "DATA:")},
    ):
        assert await lab("vision_analyze", question="Colour?", **where) == {"analysis": "red", "error": None}

    assert len(set(lab.seen)) == 1
    assert lab.seen[0].startswith("data:image/png;base64,")
    assert [part["type"] for part in lab.demo.bodies[0]["messages"][0]["content"]] == ["text", "image_url"]
    assert "tools" not in lab.demo.bodies[0]


@pytest.mark.parametrize(
    ("where", "kind", "words"),
    [
        ({"path": "none.png"}, "not_found", "none.png"),
        ({"path": "."}, "is_directory", ""),
        ({"path": "/dev/zero"}, "not_a_file", ""),
        ({"path": "much"}, "too_large", "more than 20 MiB"),
        ({"path": "text"}, "unsupported_content", "no picture that can be read"),
        ({"image_url": "/text"}, "unsupported_content", "text/html, not a picture"),
        ({"image_url": "/none"}, "http_status", "404"),
        ({"image_url": "/to-metadata"}, "address_refused", "169.254.169.254"),
        ({"image_url": "http://[::ffff:10.0.0.1]/a.png"}, "address_refused", "10.0.0.1"),
        ({"image_url": "file:///etc/passwd"}, "invalid_arguments", "only http and https"),
        ({"image_url": "data:image/png;base64"}, "invalid_arguments", "no comma"),
        ({"image_url": "data:image/png;base64,%%%"}, "invalid_arguments", "no base64"),
        ({"image_url": "data:,hello"}, "unsupported_content", "no picture"),
        ({}, "invalid_arguments", "either image_url or path"),
        ({"path": "text", "image_url": "data:,"}, "invalid_arguments", "either image_url or path"),
    ],
)
async def test_what_cannot_be_looked_at_says_why_and_no_model_is_asked(
    lab: Lab, work: Path, where: dict[str, str], kind: str, words: str
) -> None:
    (work / "text").write_text("no picture")
    with (work / "much").open("wb") as file:
        file.truncate(20 * 1024 * 1024 + 1)
    if where.get("image_url", "").startswith("/"):
        where = {"image_url": lab.api.url + where["image_url"]}
    said = await lab("vision_analyze", question="What?", **where)

    assert words in said["error"]
    assert lab.last.error_kind == kind
    assert lab.demo.requests == 0


async def test_a_long_answer_is_cut_where_a_file_would_be(lab: Lab) -> None:
    said = await lab("vision_analyze", question="A long one.", image_url=data_url(picture()))

    assert len(said["analysis"].encode()) <= LIMITS.read_bytes
    assert said["analysis"].startswith("red red")
