"""Tools that ask other models, on a real sandbox and real servers, call by call."""

import asyncio
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
from batchrun_runner.demo_model.http import Request, Response
from batchrun_runner.demo_model.script import parse_script
from batchrun_runner.demo_model.server import DemoModel
from batchrun_runner.model.client import ModelClient
from batchrun_runner.records import Usage
from batchrun_runner.sandbox.backend import SandboxLease
from batchrun_runner.storage.errors import StorageFull
from batchrun_runner.storage.folder import FolderStore
from batchrun_runner.tools.context import ToolContext, ToolLimits, ToolResult
from batchrun_runner.tools.registry import TOOLS, execute
from batchrun_runner.tools.services import open_services

SPENT = {"prompt_tokens": 10, "completion_tokens": 1}
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
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path)


async def no_browser() -> Path:
    raise AssertionError("nothing here wants a browser")


@pytest.fixture
async def lab(lease: SandboxLease, store: FolderStore) -> AsyncIterator[Lab]:
    async with AsyncExitStack() as stack:
        demo = await stack.enter_async_context(DemoModel(script=SCRIPT, keep=10))
        api = stack.enter_context(ImagesAPI("127.0.0.1"))
        spec = {
            "dataset": {"inline": '{"prompt": "a"}'},
            "model": {"name": "own", "baseURL": demo.base_url},
            "tools": {
                "vision": {"allowedRanges": ["127.0.0.1/32"]},
                "imageGen": {"model": {"name": "paints", "baseURL": api.base_url}, "size": "64x64"},
                "mixtureOfAgents": {"referenceModels": [{"name": name} for name in ("one", "two", "three")]},
            },
        }
        document = {"apiVersion": "batchrun.dev/v1alpha1", "kind": "BatchRun", "metadata": {"name": "r"}, "spec": spec}
        settings = run_settings.from_batchrun(BatchRun.model_validate(document), environ={})
        own = await stack.enter_async_context(ModelClient.from_settings(settings))
        services = await stack.enter_async_context(open_services(settings, own, store, no_browser))
        context = ToolContext(lease.sandbox, lease.cwd, tuple(TOOLS), LIMITS, services=services, key="k-0-0")
        yield Lab(context, demo, api)


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
        ({"image_url": "data:image/png;base64,%%%"}, "invalid_arguments", "is no base64"),
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


async def test_a_picture_lands_in_the_sandbox_and_in_the_output_folder_and_the_result_names_both(
    lab: Lab, work: Path, store: FolderStore
) -> None:
    said = await lab("image_generate", prompt="An otter.")

    assert said == {
        "path": str(work / "images/1.png"),
        "object": "images/k-0-0/1.png",
        "width": 64,
        "height": 64,
        "error": None,
    }
    assert (work / "images/1.png").read_bytes() == store.get("images/k-0-0/1.png").body == picture(64, 64, "green")
    assert lab.api.asked == [{"model": "paints", "prompt": "An otter.", "n": 1, "size": "64x64"}]
    assert lab.api.keys == [None]
    assert lab.context.take_usage() == Usage(prompt_tokens=30, completion_tokens=4000)


async def test_nothing_is_overwritten_neither_in_the_sandbox_nor_in_the_output_folder(
    lab: Lab, work: Path, store: FolderStore
) -> None:
    (work / "images").mkdir()
    (work / "images/1.png").write_text("of the task")
    store.put("images/k-0-0/2.png", b"of an earlier try")
    paths = [(await lab("image_generate", prompt="An otter.", size="auto"))["object"] for _ in range(2)]

    assert paths == ["images/k-0-0/3.png", "images/k-0-0/4.png"]
    assert (work / "images/1.png").read_text() == "of the task"
    assert store.get("images/k-0-0/2.png").body == b"of an earlier try"
    assert [body["size"] for body in lab.api.asked] == ["auto", "auto"]


async def test_pictures_lie_where_the_task_began_wherever_the_terminal_is(lab: Lab, work: Path) -> None:
    await lab("terminal", command="mkdir deep && cd deep")

    assert (await lab("image_generate", prompt="An otter."))["path"] == str(work / "images/1.png")


async def test_a_picture_at_the_servers_own_address_is_fetched_without_the_key(
    lab: Lab, work: Path, store: FolderStore
) -> None:
    assert (await lab("image_generate", prompt="url"))["error"] is None
    assert (work / "images/1.png").read_bytes() == picture()
    assert lab.api.fetched == [("/red.png", None)]
    assert lab.context.take_usage() == Usage(calls_without_usage=1)


async def test_a_picture_in_another_form_is_made_a_png(lab: Lab, work: Path) -> None:
    said = await lab("image_generate", prompt="jpeg")

    assert (said["width"], said["height"]) == (4000, 3000)
    assert (work / "images/1.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("prompt", "kind", "words"),
    [
        ("elsewhere", "address_refused", "169.254.169.254"),
        ("moved", "unreachable", "more than 0 redirects"),
        ("empty", "provider_error", "paints: ProviderError: the answer has no picture"),
        ("broken", "provider_error", "the picture in the answer is no base64"),
        ("junk", "unsupported_content", "no picture that can be read"),
        ("refuse", "provider_error", "paints: ContentFiltered: HTTP 400: not with us"),
        ("break", "provider_error", "HTTP 501: out of paint"),
        ("", "invalid_arguments", "prompt"),
    ],
)
async def test_what_brings_no_picture_says_why_asks_once_and_leaves_nothing(
    lab: Lab, work: Path, store: FolderStore, prompt: str, kind: str, words: str
) -> None:
    said = await lab("image_generate", prompt=prompt)

    assert words in said["error"]
    assert lab.last.error_kind == kind
    assert len(lab.api.asked) == (1 if prompt else 0)
    assert not (work / "images").exists()
    assert list(store.listing("images/")) == []


async def test_sizes_that_are_none_are_refused(lab: Lab) -> None:
    assert "size" in (await lab("image_generate", prompt="An otter.", size="huge"))["error"]


async def test_a_store_that_fails_is_a_failure_of_the_tool(
    lab: Lab, work: Path, store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> str:
        raise StorageFull("secret place")

    monkeypatch.setattr(FolderStore, "put", full)
    said = await lab("image_generate", prompt="An otter.")

    assert said == {"error": "the picture could not be stored (StorageFull)"}
    assert not (work / "images").exists()


def answers(demo: DemoModel, **by_model: dict[str, Any]) -> None:
    """What each model answers from now on: its name stands in no prompt, so they are told apart by the request."""
    play = demo._respond

    def respond(request: Request) -> Response:
        body = json.loads(request.body)
        turn = by_model.get(body["model"], {"content": f"of {body['model']}"})
        demo.play(parse_script([{"match": "", "turns": [{"usage": SPENT, **turn}]}]))
        return play(request)

    demo._respond = respond  # type: ignore[method-assign]


def of_model(lab: Lab, name: str) -> list[list[dict[str, Any]]]:
    """The messages that a model got."""
    return [body["messages"] for body in lab.demo.bodies if body["model"] == name]


async def test_reference_models_answer_and_the_runs_own_model_makes_one_answer_of_them(lab: Lab) -> None:
    answers(lab.demo, own={"content": "the best of all"})
    said = await lab("mixture_of_agents", problem="P or NP?")

    assert said == {"answer": "the best of all", "models": ["one", "two", "three"], "error": None}
    question = {"role": "user", "content": "P or NP?"}
    assert all(of_model(lab, name) == [[question]] for name in ("one", "two", "three"))
    ((system, asked),) = of_model(lab, "own")
    assert asked == question
    assert system["content"].endswith("Answer 1:\nof one\n\nAnswer 2:\nof two\n\nAnswer 3:\nof three")
    assert lab.context.take_usage() == Usage(prompt_tokens=40, completion_tokens=4)


async def test_failures_are_tolerated_down_to_one_answer_and_named(lab: Lab) -> None:
    answers(lab.demo, one={"status": 401}, three={"content": "", "reasoning": "hm"})
    said = await lab("mixture_of_agents", problem="P or NP?")

    assert (said["answer"], said["models"]) == ("of own", ["two"])
    assert [words.partition(": HTTP")[0] for words in said["not_answered"]] == [
        "one: InvalidCredentials",
        "three: EmptyReply: the answer is empty",
    ]
    assert lab.context.take_usage().prompt_tokens == 30, "an empty answer is paid for, a refused request is not"


async def test_when_no_reference_model_answers_all_are_named_and_the_last_model_is_not_asked(lab: Lab) -> None:
    answers(lab.demo, **{name: {"status": 400 + number} for number, name in enumerate(("one", "two", "three"))})
    said = await lab("mixture_of_agents", problem="P or NP?")

    assert said["error"].startswith("none of the reference models answered: one: InvalidRequest: HTTP 400")
    assert "; two: InvalidCredentials: HTTP 401" in said["error"]
    assert lab.last.error_kind == "provider_error"
    assert of_model(lab, "own") == []


async def test_where_the_last_model_fails_so_does_the_call_and_what_was_used_counts(lab: Lab) -> None:
    answers(lab.demo, own={"status": 404})
    said = await lab("mixture_of_agents", problem="P or NP?")

    assert said["error"].startswith("own: ModelNotFound")
    assert lab.context.take_usage().prompt_tokens == 30


async def test_a_fault_of_ours_over_one_answer_leaves_the_others(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    query = ModelClient.query

    async def faulty(self: ModelClient, *arguments: Any, **options: Any) -> Any:
        if self._fields["model"] == "two":
            raise KeyError("SECRET")
        return await query(self, *arguments, **options)

    monkeypatch.setattr(ModelClient, "query", faulty)
    answers(lab.demo)
    said = await lab("mixture_of_agents", problem="P or NP?")

    assert said["models"] == ["one", "three"]
    assert "two: a fault of batchrun, please report it: KeyError" in said["not_answered"][0]
    assert "SECRET" not in lab.last.content


async def test_reference_models_are_asked_at_the_same_time(lab: Lab) -> None:
    under_way, most = 0, 0
    query = ModelClient.query
    all_here = asyncio.Event()

    async def counted(self: ModelClient, *arguments: Any, **options: Any) -> Any:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if self._fields["model"] != "own":
            all_here.set() if under_way == 3 else None
            await asyncio.wait_for(all_here.wait(), 10)
        try:
            return await query(self, *arguments, **options)
        finally:
            under_way -= 1

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelClient, "query", counted)
        answers(lab.demo)
        assert (await lab("mixture_of_agents", problem="P or NP?"))["error"] is None
    assert most == 3
