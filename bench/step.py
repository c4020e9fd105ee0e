"""One step in a process of its own, so that its time and memory can be told: `python -m bench.step STEP STORE ...`."""

import sys
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

from batchrun_runner.storage.folder import FolderStore
from batchrun_runner.storage.store import ObjectStore
from bench.large_run import run_settings

FOLDER = "folder"
"""Kind of a store: `folder:PATH`; the other is the address of an S3 server with bucket, `http://host:port/bucket`."""


def open_store(address: str) -> ObjectStore:
    """The store of a comparison's run."""
    if address.startswith(f"{FOLDER}:"):
        return FolderStore(Path(address.removeprefix(f"{FOLDER}:")), survives_power_cut=False)
    from batchrun_runner.storage.s3 import S3Store  # noqa: PLC0415 - loads an S3 client
    from batchrun_runner.storage.s3_client import Endpoint  # noqa: PLC0415

    parts = urlsplit(address)
    return S3Store(parts.path.strip("/"), "runs/bench", Endpoint(f"{parts.scheme}://{parts.netloc}"))


def plan(store: ObjectStore, data_set: str, plan_id: str) -> None:
    """What the plan step does, with a data set in a file."""
    from batchrun_runner.dataset.sources import file_source  # noqa: PLC0415 - a merge does without
    from batchrun_runner.plan import make_plan  # noqa: PLC0415

    make_plan(run_settings(), store, file_source(Path(data_set)), plan_id)


def merge(store: ObjectStore, plan_id: str, workdir: str) -> None:
    """What the merge step does."""
    from batchrun_runner.merge import merger  # noqa: PLC0415 - a plan does without

    with tempfile.TemporaryDirectory(dir=workdir) as folder:
        merger.merge(run_settings(), store, plan_id, Path(folder))


if __name__ == "__main__":
    {"plan": plan, "merge": merge}[sys.argv[1]](open_store(sys.argv[2]), *sys.argv[3:])
