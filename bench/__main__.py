"""Runs every comparison and prints ratios; absolute figures are of this machine at this moment."""

import sys
import tempfile
from pathlib import Path

from bench import local_mode, merging, storm

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for comparison in (local_mode, merging, storm):
            for line in comparison.compare(Path(folder)):
                sys.stdout.write(line + "\n")
                sys.stdout.flush()
