"""Tools of MCP servers in whole local runs, against a server made with the official SDK."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.cluster.harness.talk import calls_prompt, results
from tests.contract.local.support import Workplace, environment


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving() -> Iterator[str]:
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.cluster.harness.mcp_server", str(port)], stderr=subprocess.DEVNULL
    )
    try:
        while True:
            assert process.poll() is None, "the server ended"
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except ConnectionRefusedError:
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


def spec(url: str, **more: Any) -> dict[str, Any]:
    server = {"name": "ours", "url": url, "timeoutSeconds": 5, **more}
    return {"distribution": {"ours": 100}, "tools": {"mcpServers": [server]}}


def test_a_prompt_calls_tools_of_a_server_and_faults_of_the_server_are_results(place: Workplace) -> None:
    calls = [
        ("ours__add", {"a": 2, "b": 3}),
        ("ours__refuse", {}),
        ("ours__picture", {}),
        ("ours__huge", {}),
        ("ours__slow", {}),
    ]
    with serving() as url:
        place.prompts([{"prompt": calls_prompt("Use them.", *calls)}])
        place.spec(**spec(url))
        done = place.run("--sandbox", "process")

    assert (done.returncode, done.stderr) == (0, "")
    (row,) = place.rows()
    assert (row["outcome"], row["toolsets_used"]) == ("completed", ["ours"])
    added, refused, picture, huge, slow = results(row)
    assert added == {"result": "5", "error": None}
    assert "not today" in refused["error"]
    assert "image left out" in picture["result"]
    assert 1_000 < len(huge["result"]) < 100_000
    assert slow["error"] == "no result in 5 s"
    stats = {stat["name"]: (stat["count"], stat["success"], stat["failure"]) for stat in row["own_tool_stats"]}
    assert stats == {
        "ours__add": (1, 1, 0),
        "ours__huge": (1, 1, 0),
        "ours__picture": (1, 1, 0),
        "ours__refuse": (1, 0, 1),
        "ours__slow": (1, 0, 1),
    }
    names = [tool["function"]["name"] for tool in json.loads(row["tools"])]
    assert all(len(name) <= 64 for name in names)
    assert any(name.startswith("ours__odd_name_with_blanks_") for name in names)
    assert place.statistics()["tool_statistics"]["ours__add"]["count"] == 1


def test_a_server_that_dies_fails_its_calls_and_not_the_run(place: Workplace) -> None:
    with serving() as url:
        place.prompts([{"prompt": calls_prompt("Use them.", ("ours__die", {}), ("ours__add", {"a": 1, "b": 1}))}])
        place.spec(**spec(url))
        done = place.run("--sandbox", "process")

    assert done.returncode == 0
    (row,) = place.rows()
    assert row["outcome"] == "completed"
    assert all(said["error"] for said in results(row))


def test_a_server_that_is_not_there_fails_the_prompt_by_name(place: Workplace) -> None:
    place.prompts([{"prompt": "hello"}])
    place.spec(**spec(f"http://127.0.0.1:{free_port()}/mcp"))
    done = place.run("--sandbox", "process")

    assert done.returncode == 1
    (row,) = place.rows()
    assert (row["outcome"], row["reason"]) == ("failed", "McpServerUnavailable")
    assert "MCP server ours: " in row["message"]
    assert "see that it runs" in row["message"]


def test_a_header_from_a_secret_is_asked_for_by_its_variable_and_kept_nowhere(place: Workplace) -> None:
    header = {"name": "Authorization", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    secret = "Bearer nobody-may-see-this"
    with serving() as url:
        place.prompts([{"prompt": calls_prompt("Use it.", ("ours__add", {"a": 1, "b": 1}))}])
        place.spec(**spec(url, headers=[header]))
        refused = place.run("--sandbox", "process")
        done = place.run("--sandbox", "process", environ=environment(BATCHRUN_TOOL_KEY_MCP_0_0=secret))

    assert refused.returncode == 2
    assert "BATCHRUN_TOOL_KEY_MCP_0_0" in refused.stderr
    assert done.returncode == 0
    assert not any(secret.encode() in body for body in place.objects().values())


@pytest.mark.parametrize(
    ("servers", "words"),
    [
        ([{"name": "web", "url": "http://a/mcp"}], "'web' is a built-in toolset"),
        ([{"name": "a", "url": "http://a/mcp"}, {"name": "a", "url": "http://b/mcp"}], "name of two servers"),
        ([{"name": "a"}], "url"),
        ([{"name": "a", "url": "http://a/mcp", "headers": [{"name": "X"}]}], "either value or valueFrom"),
    ],
)
def test_servers_that_cannot_be_are_refused_by_field(place: Workplace, servers: list[Any], words: str) -> None:
    place.prompts([{"prompt": "hello"}])
    place.spec(distribution={"terminal": 100}, tools={"mcpServers": servers})
    refused = place.run("--sandbox", "process")

    assert refused.returncode == 2
    assert "spec.tools.mcpServers" in refused.stderr
    assert words in refused.stderr


def test_an_unknown_toolset_is_refused_with_the_servers_that_there_are(place: Workplace) -> None:
    place.prompts([{"prompt": "hello"}])
    place.spec(distribution={"theirs": 100}, tools={"mcpServers": [{"name": "ours", "url": "http://a/mcp"}]})
    refused = place.run("--sandbox", "process")

    assert refused.returncode == 2
    assert "there is no toolset 'theirs'; there are web, vision" in refused.stderr
    assert "browser, ours" in refused.stderr
