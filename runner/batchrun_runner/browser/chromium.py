"""Chromium: where it is, and how it is started so that nothing gets past the proxy."""

import importlib.util
import os
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING

from batchrun_api.names import ENV_IN_POD

if TYPE_CHECKING:
    from playwright.async_api import Browser, Playwright

ENV_CHROMIUM = "BATCHRUN_CHROMIUM"
"""Path of the executable, where it is not on PATH."""
_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
_FLAGS = (
    # Names are the proxy's to resolve; and nothing that speaks UDP goes around it.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
    "--dns-prefetch-disable",
    "--disable-quic",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-gpu",
    "--no-pings",
)


def find_chromium(environ: Mapping[str, str]) -> str | None:
    """Path of the executable; None: there is none."""
    named = environ.get(ENV_CHROMIUM)
    if named:
        return shutil.which(named)
    path = environ.get("PATH")
    return next((found for name in _NAMES if (found := shutil.which(name, path=path))), None)


def what_is_missing(environ: Mapping[str, str]) -> str:
    """Why no browser can be started on this machine, with the fix; empty: it can."""
    if importlib.util.find_spec("playwright") is None:
        return "the Python package playwright is missing: pip install 'batchrun[browser]'"
    if find_chromium(environ) is not None:
        return ""
    if named := environ.get(ENV_CHROMIUM):
        return f"{ENV_CHROMIUM} names {named}, which is no program"
    return f"there is no Chromium: apt-get install chromium, or set {ENV_CHROMIUM} to its path"


async def launch(playwright: "Playwright", proxy_url: str, environ: Mapping[str, str]) -> "Browser":
    """Start it. Contexts bring credentials for the proxy; without any, everything is refused."""
    executable = find_chromium(environ)
    # Chromium's own sandbox works neither for root nor in a container without user namespaces.
    sandbox = os.geteuid() != 0 and ENV_IN_POD not in environ
    return await playwright.chromium.launch(
        executable_path=executable,
        args=list(_FLAGS),
        chromium_sandbox=sandbox,
        proxy={"server": proxy_url, "bypass": "<-loopback>"},
        handle_sigint=False,
        handle_sigterm=False,
        handle_sighup=False,
        env={name: value for name, value in environ.items() if name in ("PATH", "HOME", "LANG", "TMPDIR")},
    )
