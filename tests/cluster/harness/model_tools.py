"""One run whose tools ask other models, and what its result must look like in both modes."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from tests.cluster.harness.images_api import ImagesAPI, picture
from tests.cluster.harness.model import ModelServer
from tests.cluster.harness.talk import calls_prompt, results

ANSWER_USAGE = {"prompt_tokens": 100_000, "completion_tokens": 7}
"""Of each answer of the second model: far more than the run's own model reports."""
SCRIPT: list[dict[str, Any]] = [
    {"match": "colour", "turns": [{"content": "It is red.", "usage": ANSWER_USAGE}]},
    {"match": "locked", "turns": [{"status": 401}]},
    {"match": "problem", "turns": [{"content": "It is solved.", "usage": ANSWER_USAGE}]},
]
"""For the second model."""


def spec(api: ImagesAPI, second: ModelServer) -> dict[str, Any]:
    """Fields over a spec that works otherwise; the server of pictures is opened, for it is on a private address."""
    vision = {"model": {"name": "sees/well", "baseURL": second.base_url}, "allowedRanges": [f"{api.host}/32"]}
    image_gen = {"model": {"name": "paints/well", "baseURL": api.base_url}, "size": "64x64"}
    references = [{"name": name, "baseURL": second.base_url} for name in ("refers/well", "refers/too")]
    moa: dict[str, Any] = {"referenceModels": [*references, {"name": "refers/never", "baseURL": f"{api.url}/none"}]}
    moa["aggregator"] = {"name": "sums/up", "baseURL": second.base_url}
    drawn = ("terminal", "file", "vision", "image_gen", "moa")
    tools = {"vision": vision, "imageGen": image_gen, "mixtureOfAgents": moa}
    return {"distribution": dict.fromkeys(drawn, 100), "tools": tools}


def rows(api: ImagesAPI) -> list[dict[str, Any]]:
    """The data set."""

    def look(question: str, **where: str) -> tuple[str, dict[str, Any]]:
        return "vision_analyze", {"question": question, **where}

    def paint(prompt: str) -> tuple[str, dict[str, Any]]:
        return "image_generate", {"prompt": prompt}

    prompts = {
        "looks": calls_prompt(
            "Look.",
            look("Which colour has this file?", path="mine.png"),
            look("Which colour has this address?", image_url=f"{api.url}/large.jpg"),
        ),
        "pries": calls_prompt(
            "Pry.",
            look("What?", image_url=f"{api.url}/to-metadata"),
            look("What?", path="/etc/hostname"),
            look("Is it locked?", path="mine.png"),
            look("What?"),
        ),
        "paints": calls_prompt(
            "Paint.",
            paint("A green square."),
            paint("url please"),
            paint("refuse this"),
            ("terminal", {"command": "cat images/1.png | wc -c"}),
            look("Which colour has what I made?", path="images/2.png"),
        ),
    }
    mixes = [("mixture_of_agents", {"problem": problem}) for problem in ("A problem.", "A locked problem.")]
    prompts["mixes"] = calls_prompt("Mix.", *mixes)
    files = {"mine.png": {"base64": base64.b64encode(picture()).decode()}}
    return [{"id": name, "prompt": prompt, "files": files} for name, prompt in prompts.items()]


def judge(api: ImagesAPI, second: ModelServer, result: Sequence[dict[str, Any]], objects: Mapping[str, bytes]) -> None:
    """Results of the calls, their counts, their tokens, and what the servers were asked; `objects` by key."""
    found = {row["id"]: row for row in result}
    assert {row["outcome"] for row in result} == {"completed"}
    said = {name: results(row) for name, row in found.items()}

    assert said["looks"] == [{"analysis": "It is red.", "error": None}] * 2
    assert found["looks"]["tool_stats"]["vision_analyze"] == {"count": 2, "success": 2, "failure": 0}
    assert found["looks"]["api_calls"] == 3
    assert 200_000 < found["looks"]["usage"]["prompt_tokens"] < 250_000

    metadata, text, locked, nothing = (answer["error"] for answer in said["pries"])
    assert "169.254.169.254, which is not a public address" in metadata
    assert "no picture that can be read" in text
    assert "sees/well: InvalidCredentials: HTTP 401" in locked
    assert "give either image_url or path" in nothing
    assert found["pries"]["tool_error_counts"]["vision_analyze"] == 4
    assert found["pries"]["usage"]["prompt_tokens"] < 100_000

    painted = said["paints"]
    key = found["paints"]["key"]
    assert [answer.get("object") for answer in painted[:2]] == [f"images/{key}/1.png", f"images/{key}/2.png"]
    assert (painted[0]["width"], painted[0]["height"]) == (64, 64)
    assert "paints/well: ContentFiltered" in painted[2]["error"]
    made = [objects[f"images/{key}/{number}.png"] for number in (1, 2)]
    assert made == [picture(64, 64, "green"), picture()]
    assert int(painted[3]["output"]) == len(made[0])
    assert painted[4]["analysis"] == "It is red."
    assert found["paints"]["tool_stats"]["image_generate"] == {"count": 3, "success": 2, "failure": 1}
    assert found["paints"]["usage"]["completion_tokens"] > 4000
    assert found["paints"]["usage"]["calls_without_usage"] == 1
    assert not any(base64.b64encode(data) in str(result).encode() for data in made)

    solved, unsolved = said["mixes"]
    assert (solved["answer"], solved["models"]) == ("It is solved.", ["refers/well", "refers/too"])
    assert solved["not_answered"] == ["refers/never: ModelNotFound: HTTP 404: no such path"]
    assert "none of the reference models answered: refers/well: InvalidCredentials" in unsolved["error"]
    assert found["mixes"]["tool_stats"]["mixture_of_agents"] == {"count": 2, "success": 1, "failure": 1}
    assert 300_000 < found["mixes"]["usage"]["prompt_tokens"] < 400_000
    asked = [body["model"] for body in second.bodies if body["messages"][-1]["content"] == "A problem."]
    assert sorted(asked) == ["refers/too", "refers/well", "sums/up"]

    seen = [body["messages"][0]["content"][1]["image_url"]["url"] for body in second.bodies if _is_look(body)]
    assert {url.partition(",")[0] for url in seen} == {"data:image/png;base64", "data:image/jpeg;base64"}
    assert all(body["model"] == "sees/well" for body in second.bodies if _is_look(body))


def keys_by_model(second: ModelServer) -> set[tuple[str, str | None]]:
    """Which model was asked with which Authorization header."""
    asked = zip(second.bodies, second.headers, strict=True)
    return {(body["model"], headers.get("authorization")) for body, headers in asked}


def _is_look(body: dict[str, Any]) -> bool:
    return isinstance(body["messages"][0]["content"], list)
