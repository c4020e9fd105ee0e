"""Pages over real HTTP, within their bounds, from judged addresses alone."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from tests.cluster.harness.web import Site

from batchrun_runner.web.addresses import AddressRules
from batchrun_runner.web.errors import WebFailure
from batchrun_runner.web.pages import PageLimits, PageReader

LOOPBACK = AddressRules.of(["127.0.0.1/32"])


@pytest.fixture
def site() -> Iterator[Site]:
    with Site("127.0.0.1") as server:
        yield server


@pytest_asyncio.fixture
async def reader() -> AsyncIterator[PageReader]:
    pages = PageReader(LOOPBACK, PageLimits(seconds=5))
    yield pages
    await pages.aclose()


async def test_the_main_content_comes_as_markdown_with_links_that_can_be_followed(
    site: Site, reader: PageReader
) -> None:
    page = await reader.read(f"{site.url}/moved")

    assert (page.url, page.title) == (f"{site.url}/otters", "Of otters")
    assert "hold hands while they sleep" in page.text
    assert f"[stones]({site.url}/stones)" in page.text
    assert "ignore()" not in page.text


async def test_a_text_comes_as_it_is_in_its_charset(site: Site, reader: PageReader) -> None:
    assert (await reader.read(f"{site.url}/plain")).text == "Größe\n"


async def test_cookies_of_one_page_are_not_sent_with_the_next(site: Site, reader: PageReader) -> None:
    await reader.read(f"{site.url}/otters")

    assert (await reader.read(f"{site.url}/cookies")).text == "cookie: None"


@pytest.mark.parametrize(
    ("path", "kind", "words"),
    [
        ("/to-metadata", "address_refused", "169.254.169.254, which is not a public address"),
        ("/loop", "unreachable", "more than 5 redirects"),
        ("/to-file", "invalid_arguments", "only http and https"),
        ("/picture", "unsupported_content", "image/png"),
        ("/large", "too_large", "more than 10 MiB"),
        ("/gone", "http_status", "404"),
    ],
)
async def test_what_cannot_be_read_says_why(site: Site, reader: PageReader, path: str, kind: str, words: str) -> None:
    with pytest.raises(WebFailure) as caught:
        await reader.read(site.url + path)

    assert caught.value.kind == kind
    assert words in caught.value.message


async def test_a_page_that_never_ends_is_given_up(site: Site) -> None:
    reader = PageReader(LOOPBACK, PageLimits(seconds=0.5))
    with pytest.raises(WebFailure) as caught:
        await reader.read(f"{site.url}/endless")
    await reader.aclose()

    assert caught.value.kind == "timeout"


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://example.org/", "no address", "http://", "http://[::1"])
async def test_other_addresses_than_those_of_the_web_are_refused(reader: PageReader, url: str) -> None:
    with pytest.raises(WebFailure) as caught:
        await reader.read(url)

    assert caught.value.kind in {"invalid_arguments", "unreachable"}


@pytest.mark.parametrize(
    "host",
    [
        "localhost", "LocalHost.", "127.0.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "017700000001",
        "127.1", "0", "%31%32%37.0.0.1", "127\u30020\u30020\u30021", "\u2460\u2461\u2466.0.0.1", "user@127.0.0.1",
        "[::1]", "[::]", "[0:0:0:0:0:0:0:1]", "[::127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:127.0.0.1]",
        "[::ffff:0:127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fe80::1%25lo]",
    ],
)  # fmt: skip
async def test_no_name_or_form_of_this_machine_gets_through(site: Site, host: str) -> None:
    reader = PageReader(AddressRules(), PageLimits(seconds=5))
    with pytest.raises(WebFailure) as caught:
        await reader.read(f"http://{host}:{site.port}/otters")
    await reader.aclose()

    assert caught.value.kind in {"address_refused", "unreachable", "invalid_arguments"}
    assert site.asked == []


async def test_the_address_that_was_judged_is_the_one_that_is_asked_whatever_the_name_becomes(site: Site) -> None:
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])

    async def changing(host: str, port: int) -> list[str]:
        assert (host, port) == ("rebinding.example", site.port)
        return next(answers)

    reader = PageReader(LOOPBACK, PageLimits(seconds=5), changing)
    page = await reader.read(f"http://rebinding.example:{site.port}/otters")
    with pytest.raises(WebFailure) as caught:
        await reader.read(f"http://rebinding.example:{site.port}/otters")
    await reader.aclose()

    assert "hold hands" in page.text
    assert caught.value.kind == "address_refused"
    assert site.asked == [(f"rebinding.example:{site.port}", "/otters")]


async def test_a_name_with_one_private_address_among_public_ones_is_refused(site: Site) -> None:
    async def mixed(host: str, port: int) -> list[str]:
        return ["93.184.216.34", "10.0.0.1"]

    reader = PageReader(LOOPBACK, PageLimits(seconds=5), mixed)
    with pytest.raises(WebFailure) as caught:
        await reader.read(f"http://mixed.example:{site.port}/otters")
    await reader.aclose()

    assert caught.value.kind == "address_refused"
