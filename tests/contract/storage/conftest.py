"""Both stores, each empty and of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.storage.proxy import FaultProxy, proxy_to
from tests.contract.storage.server import S3Server, running

from batchrun_runner.storage.folder import FolderStore
from batchrun_runner.storage.s3 import S3Store
from batchrun_runner.storage.s3_client import Endpoint
from batchrun_runner.storage.store import ObjectStore


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with running(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def s3_store(s3_server: S3Server) -> Iterator[S3Store]:
    store = S3Store(s3_server.new_bucket(), "some/run", Endpoint(s3_server.url))
    yield store
    store.close()


@pytest.fixture(params=["folder", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    if request.param == "folder":
        return FolderStore(tmp_path / "run")
    store: ObjectStore = request.getfixturevalue("s3_store")
    return store


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[FaultProxy]:
    with proxy_to(s3_server.url) as running_proxy:
        yield running_proxy
