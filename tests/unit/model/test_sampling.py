"""What a row says of how its model was asked."""

import json
from typing import Any

from batchrun_api.spec import BatchRunSpec
from batchrun_runner.model.sampling import WITHHELD, sampling_of
from batchrun_runner.settings import RunSettings


def sampling(api_key: str | None = None, **model: Any) -> Any:
    spec = BatchRunSpec.model_validate({"dataset": {"inline": "-"}, "model": model})
    return json.loads(sampling_of(RunSettings(spec=spec, run_name="r", api_key=api_key)))


def test_everything_that_was_asked_for_stands_there_by_the_name_it_was_sent_with() -> None:
    asked = sampling(
        maxTokens=2000,
        sampling={"temperature": 0.7, "topP": 0.9, "seed": 7, "stop": ["END"]},
        reasoning={"effort": "high"},
        openRouter={"providers": {"order": ["anthropic"], "sort": "price"}},
        extraBody={"top_k": 40},
    )
    assert asked == {
        "max_tokens": 2000,
        "temperature": 0.7,
        "top_p": 0.9,
        "seed": 7,
        "stop": ["END"],
        "reasoning": {"effort": "high"},
        "provider": {"order": ["anthropic"], "sort": "price"},
        "top_k": 40,
    }


def test_nothing_asked_for_is_an_empty_object() -> None:
    assert sampling() == {}
    assert sampling(baseURL="http://vllm/v1", stream=True) == {}


def test_no_secret_is_in_it_by_its_name_or_by_its_words() -> None:
    key = "sk-or-v1-0123456789abcdef"
    extra = {"plugin": {"X-Api-Key": "abc", "note": f"use {key}", "top_tokens": [key, "fine"]}, "max_tokens_soft": 5}
    assert sampling(key, extraBody=extra) == {
        "plugin": {"X-Api-Key": WITHHELD, "note": WITHHELD, "top_tokens": [WITHHELD, "fine"]},
        "max_tokens_soft": 5,
    }
