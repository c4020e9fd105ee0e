"""The browser reaches no private address, by whatever way."""

from __future__ import annotations

import asyncio
import socket
from urllib.parse import urlsplit

import httpx2
import pytest
from tests.cluster.harness.lab import INSIDE, Lab
from tests.contract.browser.conftest import Service

from batchrun_runner.browser.proxy import GuardedProxy
from batchrun_runner.web.addresses import AddressRules


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data/",
        "https://169.254.169.254/",
        "http://10.0.0.1/",
        "http://[::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://[64:ff9b::a00:1]/",
        "http://[fd00::1]/",
        "http://2130706434/",
        "http://0x7f.2/",
        "http://0/",
    ],
)
async def test_private_addresses_are_refused_in_all_their_forms(service: Service, url: str) -> None:
    failure = await service.browser().failing("navigate", url=url)

    assert failure.kind == "address_refused"
    assert "is not a public address" in failure.message


async def test_redirects_and_clicks_are_judged_again(service: Service, lab: Lab) -> None:
    call = service.browser()
    for path in ("/to-metadata", "/to-mapped"):
        assert (await call.failing("navigate", url=lab.url + path)).kind == "address_refused"
    await call("navigate", url=f"{lab.url}/lab")
    ref = (await call("snapshot"))["snapshot"].partition('link "Inside" [ref=')[2].partition("]")[0]
    assert ref.endswith(INSIDE)
    failure = await call.failing("click", ref=ref)

    assert failure.kind == "address_refused"
    assert "169.254.169.254, which is not a public address" in failure.message


async def test_a_name_is_resolved_by_the_proxy_alone_and_judged(service: Service, lab: Lab) -> None:
    port = urlsplit(lab.url).port
    service.names["lab.example"] = [["127.0.0.1"]]
    service.names["inside.example"] = [["10.1.2.3"]]
    service.names["mixed.example"] = [["127.0.0.1", "10.1.2.3"]]
    call = service.browser()

    assert (await call("navigate", url=f"http://lab.example:{port}/lab"))["title"] == "The lab"
    assert "lab.example" in service.resolved
    for name in ("inside.example", "mixed.example"):
        assert (await call.failing("navigate", url=f"http://{name}:{port}/lab")).kind == "address_refused"


async def test_a_name_that_changes_between_two_uses_is_judged_each_time(service: Service, lab: Lab) -> None:
    port = urlsplit(lab.url).port
    service.names["changing.example"] = [["127.0.0.1"], ["169.254.169.254"]]
    call = service.browser()
    url = f"http://changing.example:{port}/hello"

    assert (await call("navigate", url=url))["title"] == "Hello"
    assert (await call.failing("navigate", url=url)).kind == "address_refused"


async def test_scripts_of_a_page_get_no_further_than_the_page(service: Service) -> None:
    with socket.create_server(("127.0.0.2", 0)) as inside:
        port = inside.getsockname()[1]
        doors = (
            f"http://127.0.0.2:{port}/",
            f"https://127.0.0.2:{port}/",
            f"ws://127.0.0.2:{port}/",
            f"wss://127.0.0.2:{port}/",
        )
        with Lab("127.0.0.1", doors) as lab:
            call = service.browser()
            page = await call("navigate", url=f"{lab.url}/prying")
            while "tried: " not in page["snapshot"]:
                page = await call("snapshot")
        inside.setblocking(False)
        with pytest.raises(BlockingIOError):
            inside.accept()
    # The proxy's refusal of plain http is an answer, of which a page sees nothing.
    assert page["snapshot"].count(" closed") == 3
    assert " opened" not in page["snapshot"]


async def test_no_packet_goes_past_the_proxy_by_webrtc(service: Service, lab: Lab) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stun:
        stun.bind(("127.0.0.1", 0))
        stun.setblocking(False)
        script = (
            "const peer = new RTCPeerConnection({iceServers: [{urls: 'stun:127.0.0.1:PORT'}]});"
            "peer.createDataChannel('x'); peer.onicegatheringstatechange = () =>"
            " document.title = peer.iceGatheringState;"
            "peer.createOffer().then(offer => peer.setLocalDescription(offer))"
        )
        script = script.replace("PORT", str(stun.getsockname()[1]))
        page = f"<!doctype html><title>waiting</title><script>{script}</script>"
        with Lab("127.0.0.1", pages={"/webrtc": page}) as site:
            call = service.browser()
            found = await call("navigate", url=f"{site.url}/webrtc")
            while found["title"] != "complete":
                found = await call("snapshot")
        with pytest.raises(BlockingIOError):
            stun.recv(100)


async def test_the_proxy_serves_nobody_without_credentials(lab: Lab) -> None:
    async with GuardedProxy(AddressRules.of(["127.0.0.1/32"])).open() as proxy:
        with proxy.admitted() as passport:
            login = f"http://{passport.username}:{passport.password}@{proxy.url.removeprefix('http://')}"
            for address, status in ((login, 200), (proxy.url, 407)):
                async with httpx2.AsyncClient(proxy=address, trust_env=False) as client:
                    assert (await client.get(f"{lab.url}/hello")).status_code == status
        async with httpx2.AsyncClient(proxy=login, trust_env=False) as client:
            assert (await client.get(f"{lab.url}/hello")).status_code == 407, "they end with their context"


async def test_the_proxy_answers_what_is_no_request(lab: Lab) -> None:
    async with GuardedProxy(AddressRules.of([])).open() as proxy:
        host, _, port = proxy.url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"nonsense\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400")
        writer.close()
