"""A result whose page is opened in a real browser."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright
from tests.unit.data.support import Run

from batchrun_runner.storage.folder import FolderStore


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    executable = shutil.which("chromium") or shutil.which("google-chrome")
    assert executable, "the page's tests need chromium; install it (apt-get install chromium)"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context(offline=True)
    page = context.new_page()
    yield page
    context.close()


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(FolderStore(tmp_path / "first_run", survives_power_cut=False), tmp_path / "work")
