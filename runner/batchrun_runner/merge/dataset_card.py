"""The columns of a result row, and the README.md that declares them for `datasets.load_dataset(folder)`."""

from typing import Any

import yaml

from batchrun_api.toolsets import ALL_TOOLS

Feature = str | list[Any] | dict[str, Any]
"""A type name of the datasets library, a list of one feature, or a struct by field name."""

_CALL: Feature = {"id": "string", "type": "string", "function": {"name": "string", "arguments": "string"}}
_STAT: Feature = {"count": "int64", "success": "int64", "failure": "int64"}

ROW_FEATURES: dict[str, Feature] = {
    "prompt_index": "int64",
    "conversations": [{"from": "string", "value": "string", "tool_calls": [_CALL]}],
    "metadata": {"batch_num": "int64", "timestamp": "string", "model": "string"},
    "completed": "bool",
    "partial": "bool",
    "api_calls": "int64",
    "toolsets_used": ["string"],
    "tool_stats": dict.fromkeys(ALL_TOOLS, _STAT),
    "tool_error_counts": dict.fromkeys(ALL_TOOLS, "int64"),
    "outcome": "string",
    "reason": "string",
    "message": "string",
    "key": "string",
    "id": "string",
    "usage": {
        "prompt_tokens": "int64",
        "completion_tokens": "int64",
        "reasoning_tokens": "int64",
        "cached_tokens": "int64",
        "total_tokens": "int64",
        "calls_without_usage": "int64",
        "shortened_prompts": "int64",
    },
    "tools": "string",
    "invalid_tool_calls": "int64",
    "reward": "float64",
    "sandbox": {"image": "string", "boot_id": "string"},
    "config_digest": "string",
    "extra": "string",
}
"""Every row has these keys in this order with these types. Only `reward` may be null."""

_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "int64": (int,),
    "bool": (bool,),
    "float64": (float, type(None)),
}


def row_problems(value: Any, feature: Feature | None = None, path: str = "row") -> list[str]:
    """What is wrong with a row's keys, their order or their types; empty when nothing is."""
    feature = ROW_FEATURES if feature is None else feature
    if isinstance(feature, str):
        is_right = isinstance(value, _PYTHON_TYPES[feature]) and (feature == "bool" or not isinstance(value, bool))
        return [] if is_right else [f"{path} is {type(value).__name__}, not {feature}"]
    if isinstance(feature, list):
        if not isinstance(value, list):
            return [f"{path} is {type(value).__name__}, not a list"]
        return [problem for i, item in enumerate(value) for problem in row_problems(item, feature[0], f"{path}[{i}]")]
    if not isinstance(value, dict):
        return [f"{path} is {type(value).__name__}, not an object"]
    if list(value) != list(feature):
        return [f"{path} has the keys {list(value)}, not {list(feature)}"]
    return [problem for name, item in value.items() for problem in row_problems(item, feature[name], f"{path}.{name}")]


def dataset_card(run_name: str, model: str) -> str:
    """README.md of a result folder: a dataset card. It holds nothing that changes between two equal merges."""
    head = {
        "configs": [
            {
                "config_name": "default",
                "data_files": [{"split": "train", "path": "trajectories.jsonl"}],
            }
        ],
        "dataset_info": {"features": [_declared(name, feature) for name, feature in ROW_FEATURES.items()]},
    }
    front = yaml.safe_dump(head, sort_keys=False, allow_unicode=True)
    return f"---\n{front}---\n{_BODY.format(run_name=run_name, model=model)}"


def _declared(name: str, feature: Feature) -> dict[str, Any]:
    return {"name": name, **_typed(feature)}


def _typed(feature: Feature) -> dict[str, Any]:
    """A feature in the words of a dataset card."""
    if isinstance(feature, str):
        return {"dtype": feature}
    if isinstance(feature, dict):
        return {"struct": [_declared(name, item) for name, item in feature.items()]}
    item = feature[0]
    if isinstance(item, dict):
        return {"list": [_declared(name, inner) for name, inner in item.items()]}
    # `sequence` is read by old and new versions of the library alike.
    return {"sequence": item}


_BODY = """
# {run_name}

Agent trajectories made by batchrun with the model `{model}`.

```python
from datasets import load_dataset

rows = load_dataset("<this folder>", split="train")
completed = rows.filter(lambda row: row["completed"])
```

| file | content |
|---|---|
| `trajectories.jsonl` | one row for each prompt with a result, in data set order |
| `discarded.jsonl` | rows that a filter left out, with the same columns |
| `left_out.jsonl` | what is not in `trajectories.jsonl`, row by row, with its reason |
| `statistics.json` | figures of the whole run |

`outcome` is `completed`, `truncated` (a limit ended it; `reason` says which) or `failed` (`reason` says why).
`prompt_index` counts the rows of the data set from 0; -1 is a row whose prompt is no longer in it.
`tools` (schemas that were offered), `extra` (unknown keys of the data set's row) and `arguments` are JSON strings.
"""
