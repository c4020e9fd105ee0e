"""`report.html` in a real browser: as a file without network, and served."""

import re
import threading
from http.client import HTTPConnection
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.unit.data.support import Run, answered, failed

import batchrun_runner.merge.report.page as page_module
from batchrun_runner.local.report_command import ReportServer, run_report

HOSTILE = '</script><script>window.broken=1</script><img src=x onerror="window.broken=1"> \u202e\u2028 "\\'


def filled(run: Run) -> Path:
    run.agent = lambda row: failed(row) if row.index % 7 == 3 else answered(row, reasoning=row.index % 11 != 5)
    run.run([*(f"prompt number {number}" for number in range(40)), HOSTILE])
    return Path(run.store.place) / "report.html"


def opened(page: Page, address: str) -> None:
    page.goto(address)
    page.wait_for_selector("html[data-ready]")


def test_counts_are_those_of_the_statistics(run: Run, page: Page) -> None:
    opened(page, filled(run).as_uri())
    statistics = run.json("statistics.json")
    for name, count in statistics["outcomes"].items():
        assert page.locator(f'dd[data-outcome="{name}"]').inner_text().split()[0] == str(count)
    for tool, stat in statistics["tool_statistics"].items():
        expect(page.locator("#tools tr", has_text=tool)).to_contain_text(str(stat["count"]))
    for reason, count in statistics["reasons"].items():
        expect(page.locator("#reasons tr", has_text=reason)).to_contain_text(str(count))
    expect(page.locator("#found")).to_have_text(f"{statistics['rows']['trajectories']} rows")


def test_search_and_reading_work_with_keys_alone(run: Run, page: Page) -> None:
    opened(page, filled(run).as_uri())
    page.keyboard.press("/")
    page.keyboard.type("number 12")
    expect(page.locator("#found")).to_contain_text("1 of")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#reader .human pre")).to_have_text("prompt number 12")
    page.keyboard.press("Escape")
    expect(page.locator("#list")).to_be_focused()
    page.keyboard.press("/")
    page.keyboard.press("Delete")
    page.keyboard.press("Enter")
    page.keyboard.press("End")
    expect(page.locator("#list [aria-selected=true]")).to_contain_text("</script>")


def test_hostile_rows_are_text(run: Run, page: Page) -> None:
    opened(page, filled(run).as_uri())
    page.locator("#search").fill("window.broken")
    page.locator(".row").click()
    expect(page.locator("#reader .human pre")).to_contain_text("<img src=x")
    assert page.evaluate("window.broken") is None
    assert page.locator("#list img, #reader img, #list script").count() == 0


def test_a_long_turn_is_shown_whole_when_asked_for(run: Run, page: Page) -> None:
    run.agent = answered
    run.run(["x" * 1_000_000])
    opened(page, (Path(run.store.place) / "report.html").as_uri())
    page.locator(".row").click()
    page.get_by_role("button", name=re.compile("1,000,000")).click()
    assert page.locator("#reader .human pre").evaluate("node => node.textContent.length") == 1_000_000


@pytest.mark.parametrize("width", [360, 1200])
def test_nothing_is_wider_than_the_page(run: Run, page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    opened(page, filled(run).as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_large_result_is_read_from_the_file_or_the_server(
    run: Run, page: Page, chromium: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_module, "EMBEDDED_BYTES", 0)
    file = filled(run)
    opened(page, file.as_uri())
    page.locator(".row").nth(1).click()
    page.get_by_label("trajectories.jsonl").set_input_files(file.with_name("trajectories.jsonl"))
    expect(page.locator("#reader .human pre")).to_have_text("prompt number 1")
    with ReportServer(run.store) as server, chromium.new_context() as context:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        served = context.new_page()
        opened(served, server.url)
        served.locator(".row").nth(2).click()
        expect(served.locator("#reader .human pre")).to_have_text("prompt number 2")
        server.shutdown()


def test_another_host_and_other_files_are_refused(run: Run) -> None:
    filled(run)
    with ReportServer(run.store) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        for path, host, status in (("/", "evil.example", 403), ("/owner.json", f"localhost:{port}", 404)):
            connection = HTTPConnection("127.0.0.1", port)
            connection.request("GET", path, headers={"Host": host})
            assert connection.getresponse().status == status
            connection.close()
        server.shutdown()


def test_a_folder_without_a_result_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place in (tmp_path, tmp_path / "missing"):
        assert run_report(str(place), 0) == 2
        assert "holds no report.html; name a folder with results" in capsys.readouterr().err
