"""Samples of one prompt are asked with seeds of their own, in every call, and their rows say so."""

import json
from dataclasses import replace
from typing import Any

import pytest

from batchrun_api.spec import BatchRunSpec
from batchrun_api.spec.model import Model, Sampling
from batchrun_runner.agent.draw import draw_toolsets
from batchrun_runner.agent.loop import Agent, Limits
from batchrun_runner.demo_model.server import DemoModel
from batchrun_runner.model.client import ModelClient
from batchrun_runner.model.sampling import sampling_of
from batchrun_runner.prompt_keys import with_sample
from batchrun_runner.settings import RunSettings


async def seeds_of(lab: Any, sampling: Sampling, sample: int) -> list[Any]:
    """The seed of each request of one sample, the closing call's included."""
    row = replace(lab.row, key=with_sample(lab.row.key, sample))
    async with DemoModel(keep=100) as demo:
        model = Model(name="m", base_url=demo.base_url, sampling=sampling)
        async with ModelClient(model) as client:
            await Agent(client, Limits(max_turns=1)).run(row, lab.toolbox)
        return [body.get("seed", "none") for body in demo.bodies]


@pytest.mark.parametrize(("sample", "seed"), [(0, 7), (1, 8), (999, 1006)])
async def test_sample_i_is_asked_with_the_seed_plus_i_in_every_call(lab: Any, sample: int, seed: int) -> None:
    assert await seeds_of(lab, Sampling(seed=7), sample) == [seed, seed]


async def test_without_a_seed_none_is_sent_to_any_sample(lab: Any) -> None:
    assert await seeds_of(lab, Sampling(temperature=0.5), 3) == ["none", "none"]


def test_the_row_says_which_seed_was_sent() -> None:
    spec = {"dataset": {"inline": "-"}, "model": {"sampling": {"seed": 0, "temperature": 0.5}}}
    settings = RunSettings(spec=BatchRunSpec.model_validate(spec), run_name="r")
    assert [json.loads(sampling_of(settings, sample))["seed"] for sample in range(3)] == [0, 1, 2]
    unseeded = RunSettings(spec=BatchRunSpec.model_validate({"dataset": {"inline": "-"}}), run_name="r")
    assert sampling_of(unseeded, 2) == "{}"


def test_samples_draw_toolsets_of_their_own() -> None:
    keys = [with_sample("k-0-0", sample) for sample in range(50)]
    drawn = {draw_toolsets({"terminal": 50, "file": 50}, {"terminal", "file"}, ("run", key)) for key in keys}
    assert drawn == {("terminal",), ("file",), ("terminal", "file")}
