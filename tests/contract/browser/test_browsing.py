"""What the browser's tools do with pages, in real Chromium."""

from __future__ import annotations

import base64

import pytest
from tests.cluster.harness.lab import ASK, CHANGE, HANG, INSIDE, NAME, OPEN, REPORT, Lab
from tests.contract.browser.conftest import Service


async def test_a_page_is_opened_through_a_redirect_and_its_elements_have_refs(service: Service, lab: Lab) -> None:
    call = service.browser()
    page = await call("navigate", url=f"{lab.url}/moved")

    assert (page["url"], page["title"], page["status"]) == (f"{lab.url}/lab", "The lab", 200)
    for name, ref in (('button "Ask"', ASK), ('textbox "Name"', NAME), ('link "Inside"', INSIDE)):
        assert f"{name} [ref={ref}]" in page["snapshot"]


async def test_dialogs_are_accepted_and_told(service: Service, lab: Lab) -> None:
    call = service.browser()
    await call("navigate", url=f"{lab.url}/lab")
    clicked = await call("click", ref=ASK)

    assert clicked["events"] == ["the page opened the dialog (confirm) 'Really?', which was accepted"]
    assert 'button "confirmed"' in (await call("snapshot"))["snapshot"]


async def test_a_form_is_filled_sent_and_left_again(service: Service, lab: Lab) -> None:
    call = service.browser()
    await call("navigate", url=f"{lab.url}/lab")
    await call("type", ref=NAME, text="Otto")
    sent = await call("press", key="Enter")

    assert (sent["title"], sent["url"]) == ("Hello", f"{lab.url}/hello?name=Otto")
    assert 'heading "Hello Otto"' in (await call("snapshot"))["snapshot"]
    assert (await call("back"))["title"] == "The lab"


async def test_what_a_script_changes_later_is_in_the_next_snapshot(service: Service, lab: Lab) -> None:
    call = service.browser()
    await call("navigate", url=f"{lab.url}/lab")
    await call("click", ref=CHANGE)

    assert 'heading "Changed later"' in (await call("snapshot"))["snapshot"]


async def test_a_popup_is_the_current_page_until_back_closes_it(service: Service, lab: Lab) -> None:
    call = service.browser()
    await call("navigate", url=f"{lab.url}/lab")
    opened = await call("click", ref=OPEN)
    assert opened["title"] == "Popup"
    assert "a new page was opened" in opened["events"][0]

    closed = await call("back")
    assert closed["title"] == "The lab"
    assert "a page was closed" in closed["events"][0]


async def test_downloads_are_refused_and_told(service: Service, lab: Lab) -> None:
    call = service.browser()
    await call("navigate", url=f"{lab.url}/lab")
    clicked = await call("click", ref=REPORT)
    assert (clicked["title"], clicked["events"]) == (
        "The lab",
        ["the page offered the download 'report.zip', which was refused: nothing can be downloaded here"],
    )

    failure = await call.failing("navigate", url=f"{lab.url}/file")
    assert failure.kind == "unsupported_content"
    assert (await call("navigate", url=f"{lab.url}/hello"))["title"] == "Hello", "the next page is not disturbed by it"


async def test_scrolling_pictures_console_and_a_screenshot(service: Service, lab: Lab) -> None:
    call = service.browser()
    await call("navigate", url=f"{lab.url}/lab")

    assert (await call("scroll", direction="down"))["scrolled_to"]["top"] > 500
    assert (await call("scroll", direction="up"))["scrolled_to"]["top"] == 0
    (image,) = (await call("get_images"))["images"]
    assert (image["src"], image["alt"]) == (f"{lab.url}/picture.png", "A red square")
    assert image["width"] > 0
    messages = (await call("console", clear=True))["messages"]
    assert {"type": "log", "text": "the lab is open"} in messages
    assert any(item["type"] == "uncaught error" and "lost in the lab" in item["text"] for item in messages)
    assert (await call("console", clear=False))["messages"] == []
    assert base64.b64decode((await call("screenshot"))["png"]).startswith(b"\x89PNG")


async def test_an_http_error_is_a_page_with_its_status(service: Service, lab: Lab) -> None:
    page = await service.browser()("navigate", url=f"{lab.url}/none")

    assert (page["status"], page["title"]) == (404, "Gone")


async def test_what_cannot_be_done_says_why(service: Service, lab: Lab) -> None:
    call = service.browser()
    assert (await call.failing("snapshot")).kind == "no_page"
    assert (await call.failing("navigate", url="file:///etc/passwd")).kind == "invalid_arguments"
    assert (await call.failing("navigate", url="chrome://version")).kind == "invalid_arguments"
    await call("navigate", url=f"{lab.url}/lab")
    assert (await call.failing("click", ref="e999")).kind == "no_match"
    assert (await call.failing("click", ref="no ref at all")).kind == "no_match"
    assert (await call.failing("type", ref=ASK, text="x")).kind == "invalid_arguments"
    assert (await call.failing("press", key="NoSuchKey")).kind == "invalid_arguments"
    assert (await call.failing("navigate", url="http://nobody.invalid/")).kind == "unreachable"
    assert (await call.failing("navigate", url="https://nobody.invalid/")).kind == "unreachable"
    assert (await call.failing("navigate", url="http://127.0.0.1:1/")).kind == "unreachable"
    assert (await call("navigate", url=f"{lab.url}/lab"))["status"] == 200


async def test_a_page_that_never_comes_and_one_that_hangs_are_given_up(service: Service, lab: Lab) -> None:
    call = service.browser()
    assert (await call.failing("navigate", url=f"{lab.url}/endless")).kind == "timeout"

    await call("navigate", url=f"{lab.url}/lab")
    page = await call("snapshot")
    ref = page["snapshot"].partition('button "Hang" [ref=')[2].partition("]")[0]
    assert ref.endswith(HANG)
    assert (await call.failing("click", ref=ref)).kind == "timeout"
    failure = await call.failing("snapshot")
    assert (failure.kind, "was closed" in failure.message) == ("timeout", True)
    assert (await call("navigate", url=f"{lab.url}/lab"))["title"] == "The lab"


@pytest.mark.parametrize("count", [2])
async def test_prompts_share_no_cookies(service: Service, lab: Lab, count: int) -> None:
    calls = [service.browser() for _ in range(count)]
    for call in calls:
        await call("navigate", url=f"{lab.url}/lab")
        page = await call("navigate", url=f"{lab.url}/cookies")
        assert "cookies: who=the-first" in page["snapshot"], "a prompt keeps its own"
    assert [cookies for path, cookies in lab.asked if path == "/lab"] == [""] * count


async def test_a_connection_that_ends_takes_its_cookies_along(service: Service, lab: Lab) -> None:
    call = service.browser()
    await call("navigate", url=f"{lab.url}/lab")
    await call.connection.aclose()

    assert (await call.failing("snapshot")).kind == "no_page"
    assert "cookies: none" in (await call("navigate", url=f"{lab.url}/cookies"))["snapshot"]
