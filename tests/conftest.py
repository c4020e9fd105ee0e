"""For all tests: no deadline for properties, since a busy machine is no fault, and the same examples in every run."""

import pytest
from hypothesis import settings

settings.register_profile("batchrun", deadline=None, derandomize=True)
settings.load_profile("batchrun")


COLLECTED = pytest.StashKey[frozenset[str]]()
"""Ids of all tests that were found, without their parameters; also of those that -m leaves out."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes minutes starts first, so that the other workers are not waiting for it at the end."""
    config.stash[COLLECTED] = frozenset(item.nodeid.partition("[")[0] for item in items)
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
