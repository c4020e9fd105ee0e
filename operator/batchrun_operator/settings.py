"""What the operator is told by its environment. Read once at the start; everything else gets it as an argument."""

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from pydantic import ValidationError

from batchrun_api.spec.sandbox import ResourceList, Resources

LogFormat = Literal["json", "console"]
PullPolicy = Literal["Always", "IfNotPresent", "Never"]

RUNNER_RESOURCES = Resources(
    requests=ResourceList(cpu="100m", memory="256Mi"), limits=ResourceList(cpu="1", memory="1Gi")
)
BROWSER_RESOURCES = Resources(
    requests=ResourceList(cpu="100m", memory="512Mi"), limits=ResourceList(cpu="2", memory="2Gi")
)


class SettingsInvalid(ValueError):
    """An environment variable holds what it cannot hold; the message names it."""


@dataclass(frozen=True, slots=True)
class PodSettings:
    """What the pods of all runs have in common."""

    runner_image: str
    runner_image_pull_policy: PullPolicy | None = None
    """None: Kubernetes' own rule."""
    runner_resources: Resources = RUNNER_RESOURCES
    """Requests and limits of the runner container."""
    browser_image: str = ""
    """For pods of batches that have drawn the browser."""
    browser_image_pull_policy: PullPolicy | None = None
    browser_resources: Resources = BROWSER_RESOURCES
    """Requests and limits of the browser container."""
    blocked_ranges: tuple[str, ...] = ()
    """What `sandbox.network.mode: InternetOnly` blocks beside all that is never public."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When the operator loses patience."""

    max_attempts: int = 6
    """After this many lost attempts of one plan, batch or merge the run ends Failed."""
    max_runner_restarts: int = 5
    """In-place restarts of the runner container after which an attempt is lost."""
    backstop_seconds: float = 30.0
    """A pod that is still there this long after its runner ended with 0 is removed."""
    overdue_seconds: float = 90.0
    """A pod that is being deleted for longer counts as gone: its node is lost. Grace period included."""
    trouble_seconds: float = 10.0
    """How long a pod may wait for a node or for its first container before a condition speaks of it."""
    around_seconds: float = 15.0
    """How long addresses of model, store and API server count before they are looked up again."""
    create_seconds: float = 60.0
    """How long a sandbox that cannot be made is tried again; never longer than a failing pull."""
    hints_seconds: float = 20.0
    """How often logs of running batches are looked at for what the model server does."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of the operator."""

    pods: PodSettings
    limits: Limits = field(default_factory=Limits)
    namespaces: tuple[str, ...] = ()
    """Where runs may live; empty: everywhere."""
    resync_seconds: float = 60.0
    """Every unfinished run is looked at this often, even if no event came."""
    log_level: str = "INFO"
    log_format: LogFormat = "json"
    liveness_port: int = 8080
    """0: no liveness endpoint."""


def from_environ(environ: Mapping[str, str]) -> Settings:
    """Settings from `BATCHRUN_...` variables. Raises SettingsInvalid."""
    image = environ.get("BATCHRUN_RUNNER_IMAGE", "")
    if not image:
        raise SettingsInvalid("BATCHRUN_RUNNER_IMAGE must name the runner image")
    return Settings(
        pods=PodSettings(
            runner_image=image,
            runner_image_pull_policy=_pull_policy(environ, "RUNNER"),
            runner_resources=_resources(environ, "RUNNER", RUNNER_RESOURCES),
            # An image of one's own may be both.
            browser_image=environ.get("BATCHRUN_BROWSER_IMAGE") or image,
            browser_image_pull_policy=_pull_policy(environ, "BROWSER"),
            browser_resources=_resources(environ, "BROWSER", BROWSER_RESOURCES),
            blocked_ranges=_ranges(environ),
        ),
        limits=Limits(
            max_attempts=int(_number(environ, "BATCHRUN_MAX_ATTEMPTS", 6, least=1)),
            backstop_seconds=_number(environ, "BATCHRUN_BACKSTOP_SECONDS", 30, least=0),
        ),
        namespaces=_words(environ, "BATCHRUN_NAMESPACES"),
        resync_seconds=_number(environ, "BATCHRUN_RESYNC_SECONDS", 60, least=1),
        log_level=environ.get("BATCHRUN_LOG_LEVEL", "info").upper(),
        log_format="console" if environ.get("BATCHRUN_LOG_FORMAT") == "console" else "json",
        liveness_port=int(_number(environ, "BATCHRUN_LIVENESS_PORT", 8080, least=0)),
    )


def _words(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(environ.get(name, "").replace(",", " ").split())


def _ranges(environ: Mapping[str, str]) -> tuple[str, ...]:
    found = _words(environ, "BATCHRUN_BLOCKED_RANGES")
    for text in found:
        try:
            ipaddress.ip_network(text)
        except ValueError as error:
            message = f"BATCHRUN_BLOCKED_RANGES must hold ranges such as 203.0.113.0/24: {error}"
            raise SettingsInvalid(message) from error
    return found


def _number(environ: Mapping[str, str], name: str, default: float, *, least: float) -> float:
    text = environ.get(name) or str(default)
    try:
        value = float(text)
    except ValueError as error:
        raise SettingsInvalid(f"{name} is not a number: {text!r}") from error
    if value < least:
        raise SettingsInvalid(f"{name} must be at least {least}, is {text}")
    return value


def _pull_policy(environ: Mapping[str, str], container: str) -> PullPolicy | None:
    variable = f"BATCHRUN_{container}_IMAGE_PULL_POLICY"
    text = environ.get(variable) or None
    for policy in get_args(PullPolicy):
        if text == policy:
            known: PullPolicy = policy
            return known
    if text is None:
        return None
    raise SettingsInvalid(f"{variable} must be Always, IfNotPresent or Never, is {text!r}")


def _resources(environ: Mapping[str, str], container: str, default: Resources) -> Resources:
    variable = f"BATCHRUN_{container}_RESOURCES"
    text = environ.get(variable) or ""
    if not text:
        return default
    try:
        return Resources.model_validate(json.loads(text))
    except (ValueError, ValidationError) as error:
        raise SettingsInvalid(f"{variable} is not a JSON of requests and limits: {error}") from error
