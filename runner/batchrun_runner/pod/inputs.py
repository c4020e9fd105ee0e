"""What is mounted into a runner container, and its environment."""

from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from batchrun_api.checks import distribution_of
from batchrun_api.conditions import Reason
from batchrun_api.names import PREFILL_FILE
from batchrun_api.outcomes import Reason as OutcomeReason
from batchrun_api.spec import BatchRun
from batchrun_api.wording import plain_words
from batchrun_runner import settings as run_settings
from batchrun_runner.model.errors import StopRun
from batchrun_runner.settings import Owner, PrefillInvalid, RunSettings, key_fault, prefill_messages
from batchrun_runner.storage.s3 import run_store
from batchrun_runner.storage.store import ObjectStore


class ConfigurationInvalid(Exception):
    """The mounted configuration cannot be used: it passed the CRD of another version, or a ConfigMap is wrong."""

    reason = Reason.INVALID_SPEC


def read_settings(config: Path, environ: Mapping[str, str], *, prefill: Path = Path(PREFILL_FILE)) -> RunSettings:
    """The run's settings. Raises ConfigurationInvalid, or StopRun for a key that cannot be sent."""
    try:
        run = BatchRun.model_validate_json(config.read_bytes())
        messages = prefill_messages(prefill.read_text()) if prefill.exists() else ()
    except ValidationError as error:
        detail = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(step) for step in detail["loc"])
        raise ConfigurationInvalid(f"{path}: {plain_words(detail)}") from error
    except PrefillInvalid as error:
        raise ConfigurationInvalid(f"spec.agent.prefillMessagesFrom: the text {error}") from error
    if run.spec.output is None:
        raise ConfigurationInvalid("spec.output: is needed on a cluster; name the bucket in output.s3")
    if distribution_of(run.spec) is None:
        raise ConfigurationInvalid("spec.distribution: the operator did not put probabilities in its place")
    meta = run.metadata
    owner = Owner(meta.uid or "", meta.namespace or "", meta.name)
    settings = run_settings.from_batchrun(run, owner=owner, prefill_messages=messages, environ=environ)
    if settings.api_key is not None and (fault := key_fault(settings.api_key)):
        raise StopRun(OutcomeReason.INVALID_CREDENTIALS, f"the key {fault}")
    for purpose, key in settings.tool_keys.items():
        if fault := key_fault(key):
            raise StopRun(OutcomeReason.INVALID_CREDENTIALS, f"the key for {purpose} of spec.tools {fault}")
    return settings


def open_store(settings: RunSettings) -> ObjectStore:
    """The run's own place in its bucket: `<prefix>/<runName>/`."""
    location = settings.spec.output.s3 if settings.spec.output else None
    if location is None:
        raise ConfigurationInvalid("spec.output: is needed on a cluster; name the bucket in output.s3")
    return run_store(location, settings.run_name)
