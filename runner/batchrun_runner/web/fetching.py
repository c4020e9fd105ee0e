"""Something from an address that a model named: fetched within bounds, from judged addresses alone."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx2

from batchrun_runner.text import one_line
from batchrun_runner.web.addresses import AddressRules
from batchrun_runner.web.errors import WebFailure
from batchrun_runner.web.transport import AddressRefused, GuardedTransport, Resolver, resolve

USER_AGENT = "batchrun (an agent's page reader)"

_SHOWN_CHARS = 200
"""Of a server's own words."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Bounds of one page or picture. `max_bytes` counts after unpacking."""

    seconds: float = 30.0
    max_bytes: int = 10 * 1024 * 1024
    redirects: int = 5


USUAL_LIMITS = FetchLimits()


@dataclass(frozen=True, slots=True)
class Fetched:
    """What came."""

    url: str
    """Where it was found in the end."""
    content_type: str
    """In lower case, without parameters; empty: the server does not say."""
    charset: str
    body: bytes


Refuses = Callable[[str], str]
"""Why a content type is not wanted; empty: it is."""


class Fetcher:
    """Fetches for all prompts of a process. Close it."""

    def __init__(self, rules: AddressRules, limits: FetchLimits, accept: str, resolver: Resolver = resolve) -> None:
        self.limits = limits
        self._client = httpx2.AsyncClient(
            transport=GuardedTransport(rules, resolver),
            follow_redirects=True,
            max_redirects=limits.redirects,
            headers={"User-Agent": USER_AGENT, "Accept": accept},
            timeout=limits.seconds,
            trust_env=False,
        )

    @asynccontextmanager
    async def within_limits(self) -> AsyncIterator[None]:
        """For a fetch and what is made of it: raises WebFailure for what goes wrong."""
        limits = self.limits
        try:
            async with asyncio.timeout(limits.seconds):
                yield
        except TimeoutError:
            raise WebFailure("timeout", f"not read within {limits.seconds:g} s") from None
        except AddressRefused as error:
            raise WebFailure("address_refused", str(error)) from error
        except httpx2.TooManyRedirects:
            raise WebFailure("unreachable", f"more than {limits.redirects} redirects") from None
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, ValueError) as error:
            raise WebFailure("invalid_arguments", f"only http and https addresses can be read: {error}") from error
        except httpx2.TransportError as error:
            raise WebFailure("unreachable", f"{type(error).__name__}: {error}") from error
        except httpx2.DecodingError as error:
            raise WebFailure("unsupported_content", f"its compression is broken: {error}") from error

    async def fetch(self, url: str, refuses: Refuses) -> Fetched:
        """Call it within limits. Raises WebFailure, and what those turn into one."""
        async with self._client.stream("GET", url) as response:
            # A cookie of one prompt's page is no business of the next prompt's.
            self._client.cookies.clear()
            if response.status_code >= 400:
                said = one_line(f"{response.status_code} {response.reason_phrase}", _SHOWN_CHARS)
                raise WebFailure("http_status", f"the server answers {said}")
            content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if why := refuses(content_type):
                raise WebFailure("unsupported_content", one_line(why, _SHOWN_CHARS))
            body = bytearray()
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > self.limits.max_bytes:
                    raise WebFailure("too_large", f"it has more than {self.limits.max_bytes >> 20} MiB")
            return Fetched(str(response.url), content_type, response.charset_encoding or "", bytes(body))

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()
