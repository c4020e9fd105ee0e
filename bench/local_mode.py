"""`batchrun local` on the demo model, beside the same number of bare model requests: what everything else costs."""

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2

from batchrun_runner.demo_model.server import DemoModel
from bench.measured import measure, median

PROMPTS = 40
RUN = """
apiVersion: batchrun.dev/v1alpha1
kind: BatchRun
metadata: {name: NAME}
spec:
  dataset: {uri: "file://prompts.jsonl"}
  distribution: terminal_only
  model: {name: demo/scripted}
"""


def compare(folder: Path) -> Iterator[str]:
    """Lines with the figures."""
    prompts = "".join(json.dumps({"prompt": f"prompt {number}"}) + "\n" for number in range(PROMPTS))
    (folder / "prompts.jsonl").write_text(prompts)
    samples = []
    for name in ("warm-up", "one", "two", "three"):
        (folder / f"{name}.yaml").write_text(RUN.replace("NAME", name))
        samples.append(measure(["batchrun", "local", str(folder / f"{name}.yaml"), "--output", str(folder / "out")]))
    ours = median(samples[1:])
    again = measure(["batchrun", "local", str(folder / "one.yaml"), "--output", str(folder / "out")])
    calls = json.loads((folder / "out" / "one" / "statistics.json").read_text())["api_calls"]
    floor = asyncio.run(_bare_requests(calls))
    yield f"local mode, {PROMPTS} prompts: {ours.wall_seconds:.2f} s wall, {ours.cpu_seconds:.2f} s CPU"
    yield f"  the same {calls} model requests, bare: {floor:.2f} s wall; ratio {ours.wall_seconds / floor:.1f}"
    yield f"  again with all done: {again.wall_seconds:.2f} s wall; ratio {again.wall_seconds / ours.wall_seconds:.2f}"


async def _bare_requests(count: int) -> float:
    body = {"model": "demo/scripted", "messages": [{"role": "user", "content": "hello"}]}
    async with DemoModel() as demo, httpx2.AsyncClient(base_url=demo.base_url, trust_env=False) as client:
        start = time.perf_counter()
        for _ in range(count):
            (await client.post("/chat/completions", json=body)).raise_for_status()
        return time.perf_counter() - start
