"""A row's own user, resources and artifacts, as a cluster takes them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.harness.runs import Runs, demo_prompt

ROWS: list[dict[str, Any]] = [
    {
        "id": "own",
        "prompt": demo_prompt("As somebody.", "id -u > who; id -g >> who; mkdir out; printf 'x\\0' > out/.odd"),
        "user": "1234:56",
        "resources": {"limits": {"cpu": "200m", "memory": "300Mi"}, "requests": {"memory": "200Mi"}},
        "collect": {"paths": ["who", "out", "missing"], "command": "echo at the end; pwd"},
        "verify": {"command": "test -f who"},
    },
    {"id": "plain", "prompt": demo_prompt("As the image says.", "id -u")},
    {
        "id": "failed",
        "prompt": demo_prompt("No verdict.", "echo kept > kept"),
        "collect": {"paths": ["kept"]},
        "verify": {"command": "no-such-program"},
    },
]
SANDBOX = {
    "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"cpu": "500m", "memory": "128Mi"}},
    "maxResources": {"memory": "512Mi"},
}


@pytest.mark.timeout(300)
def test_rows_have_their_own_user_and_resources_and_their_artifacts_are_in_the_bucket(runs: Runs) -> None:
    run = runs.start("artifacts", [row | {"cwd": "/tmp/work"} for row in ROWS], sandbox=SANDBOX)
    run.wait_complete(240)

    rows = {row["id"]: row for row in run.rows()}
    assert {name: (row["outcome"], row["reward"]) for name, row in rows.items()} == {
        "own": ("completed", 1.0),
        "plain": ("completed", None),
        "failed": ("failed", None),
    }
    own = rows["own"]["artifacts"]
    assert [file | {"sha256": ""} for file in own["files"]] == [
        {"path": "who", "size_bytes": 8, "mode": 0o644, "sha256": ""},
        {"path": "out/.odd", "size_bytes": 2, "mode": 0o644, "sha256": ""},
    ]
    assert own["left_out"] == [{"path": "missing", "why": "there is no such file or folder"}]
    keys = [key for key in runs.bucket.etags(run.prefix) if key.startswith("artifacts/")]
    stored = {key: runs.bucket.read(f"{run.prefix}/{key}") for key in keys}
    assert stored == {
        f"{own['place']}files/who": b"1234\n56\n",
        f"{own['place']}files/out/%2Eodd": b"x\0",
        f"{own['place']}command.out": b"at the end\n/tmp/work\n",
        f"{rows['failed']['artifacts']['place']}files/kept": b"kept\n",
    }

    (pod,) = run.pods("batch")
    containers = {container["name"]: container for container in pod["spec"]["containers"]}
    assert containers["sandbox-0"]["resources"]["limits"] == {"cpu": "200m", "memory": "300Mi"}
    assert containers["sandbox-1"]["resources"]["limits"] == {"cpu": "500m", "memory": "128Mi"}
    assert containers["sandbox-0"]["securityContext"]["runAsUser"] == 1234
    assert "runAsUser" not in containers["sandbox-1"]["securityContext"]
    # The runner's own 100m and 256Mi, and the largest sandbox kind by kind: one prompt works at a time.
    assert pod["spec"]["resources"]["requests"] == {"cpu": "150m", "memory": "456Mi"}
