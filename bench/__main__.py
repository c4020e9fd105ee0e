"""Runs every comparison (or those that are named) and prints ratios; absolute figures are of this machine, now."""

import sys
import tempfile
from pathlib import Path

from bench import browser, local_mode, merging, peers, planning, sandbox, storm

COMPARISONS = {
    "local": local_mode,
    "plan": planning,
    "merge": merging,
    "storm": storm,
    "sandbox": sandbox,
    "browser": browser,
    "peers": peers,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or COMPARISONS:
        with tempfile.TemporaryDirectory() as folder:
            for line in COMPARISONS[name].compare(Path(folder)):
                sys.stdout.write(line + "\n")
                sys.stdout.flush()
