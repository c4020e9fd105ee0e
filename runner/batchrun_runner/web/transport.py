"""Requests to judged addresses only: the name is resolved here, and the very address that was judged is asked."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

import httpx2

from batchrun_runner.web.addresses import AddressRules

PORTS = {"http": 80, "https": 443}
Resolver = Callable[[str, int], Awaitable[list[str]]]
"""A host's addresses for a port; raises OSError."""


class AddressRefused(Exception):
    """The host has an address that is not public; the message says which."""


async def resolve(host: str, port: int) -> list[str]:
    """The system's answer, each address once, in its order."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def judged_addresses(host: str, port: int, rules: AddressRules, resolver: Resolver) -> list[str]:
    """The host's addresses, resolved once. A host is refused as soon as one of them is not allowed: a name that mixes
    them is no accident.

    Raises OSError where it cannot be resolved, and AddressRefused.
    """
    try:
        addresses = await resolver(host, port)
    except (OSError, UnicodeError) as error:
        raise OSError(f"{host} cannot be resolved: {error}") from error
    for address in addresses:
        if not rules.allows(address):
            raise AddressRefused(f"{host} is {address}, which is not a public address")
    return addresses


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Asks hosts at judged addresses. Redirects come here too, one by one."""

    def __init__(self, rules: AddressRules, resolver: Resolver = resolve) -> None:
        self._rules = rules
        self._resolver = resolver
        self._inner = httpx2.AsyncHTTPTransport(trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Raises AddressRefused for an address, UnsupportedProtocol for a scheme, and what else httpx raises."""
        url = request.url
        if url.scheme not in PORTS:
            raise httpx2.UnsupportedProtocol(f"{url.scheme} is neither", request=request)
        addresses = await self._judged(request)
        failure: httpx2.ConnectError | None = None
        for address in addresses:
            # The host stays in the Host header and in TLS, whose certificate is checked against it.
            to_address = httpx2.Request(
                request.method,
                url.copy_with(host=address),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": url.host},
            )
            try:
                return await self._inner.handle_async_request(to_address)
            except httpx2.ConnectError as error:
                failure = error
        raise failure or httpx2.ConnectError(f"{url.host} has no address", request=request)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._inner.aclose()

    async def _judged(self, request: httpx2.Request) -> list[str]:
        port = request.url.port or PORTS[request.url.scheme]
        try:
            return await judged_addresses(request.url.host, port, self._rules, self._resolver)
        except OSError as error:
            raise httpx2.ConnectError(str(error), request=request) from error
