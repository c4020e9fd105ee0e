"""The README.md that declares the columns of a result for `datasets.load_dataset(folder)`."""

from typing import Any

import yaml

from batchrun_runner.columns import NULLABLE_FLOAT, ROW_FEATURES, Feature


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
        return {"dtype": "float64" if feature == NULLABLE_FLOAT else feature}
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
`prompt_index` counts the rows of the data set from 0; -1 is a row whose prompt is no longer in it. `sample` counts
the samples of one such row from 0; with one sample of each it is always 0.
`tools` (schemas that were offered), `sampling` (parameters that were asked for), `extra` (unknown keys of the data
set's row) and `arguments` are JSON strings. `batchrun export` writes other forms of the rows: openai, hermes, parquet.
"""
