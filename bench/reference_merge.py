"""How the reference merges, written anew: each line of each batch file is parsed, judged by its tools, and written.

Its package (hermes-agent 0.19.0, `BatchRunner.run`) cannot be asked for a merge alone: with nothing left to run it
returns before it. What it prints, and the statistics that it adds up elsewhere, are left out here, in its favour.
`python -m bench.reference_merge FOLDER OUTPUT`
"""

import json
import sys
from pathlib import Path

from batchrun_api.toolsets import ALL_TOOLS


def merge(folder: Path, output: Path) -> tuple[int, int]:
    """Combine `batch_*.jsonl`; returns (lines read, lines left out)."""
    total = left_out = 0
    valid = set(ALL_TOOLS)
    with output.open("w", encoding="utf-8") as out:
        for batch in sorted(folder.glob("batch_*.jsonl")):
            with batch.open(encoding="utf-8") as lines:
                for line in lines:
                    total += 1
                    try:
                        data = json.loads(line)
                        if [tool for tool in data.get("tool_stats", {}) if tool not in valid]:
                            left_out += 1
                            continue
                        out.write(line)
                    except json.JSONDecodeError:
                        left_out += 1
    return total, left_out


if __name__ == "__main__":
    merge(Path(sys.argv[1]), Path(sys.argv[2]))
