"""`batchrun verify` over the results of a run in a bucket."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from tests.cluster.harness.runs import demo_prompt
from tests.contract.local.support import BATCHRUN, Workplace, environment
from tests.contract.storage.server import S3Server

from batchrun_runner.storage.s3 import S3Store
from batchrun_runner.storage.s3_client import Endpoint


def test_results_in_a_bucket_are_judged_again_there(tmp_path: Path, s3_server: S3Server) -> None:
    place = Workplace(tmp_path)
    place.prompts(
        [
            {
                "prompt": demo_prompt("In a bucket.", "mkdir .out; echo 42 > .out/x"),
                "collect": {"paths": [".out"]},
                "verify": {"command": "[ $(cat .out/x) = 42 ]"},
            }
        ]
    )
    place.spec()
    assert place.run("--sandbox", "process").returncode == 0
    bucket = s3_server.new_bucket()
    store = S3Store(bucket, "some/here", Endpoint(s3_server.url))
    before = place.objects()
    for key, body in before.items():
        if not key.startswith(".batchrun/"):
            store.put(key, body)
    s3 = {"bucket": bucket, "prefix": "some", "endpointURL": s3_server.url, "forcePathStyle": True}
    place.spec(output={"s3": s3})
    keys = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}

    done = subprocess.run(
        [str(BATCHRUN), "verify", "run.yaml", "--sandbox", "process"],
        cwd=place.folder,
        env=environment(**keys),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(store.get("verified.jsonl").body)["reward"] == 1.0
    assert json.loads(store.get("verified_statistics.json").body)["judged"] == 1
    assert store.get("trajectories.jsonl").body == before["trajectories.jsonl"]
    assert place.objects() == before
    store.close()
